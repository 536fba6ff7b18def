"""Measure one case: every contender's error and peak alone, then all their times in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gp_experiments.peers.cases import Case
from gp_experiments.peers.contenders import Contender
from gp_experiments.peers.data import compare, reference
from gp_experiments.peers.interleave import Worker, WorkerError, batches, in_turns
from gp_experiments.peers.peak import FREED_BLOCKS_LEAVE

ANCHOR = "tf_exla"
BASELINE = 700 << 20  # bytes of a process with its libraries loaded
POOLED = 1.5  # what an allocator with a pool may hold, over the peak
ROOM = 0.8  # of the available memory, for processes that wait

Say = Callable[[str], None]
Start = Callable[[Contender, Mapping[str, str] | None], AbstractContextManager[Worker]]


@dataclass(frozen=True)
class Rounds:
    """How often each contender runs: as often as fits into `seconds`, from `least` to `most`."""

    least: int = 3
    most: int = 15
    seconds: float = 30.0


def measure(
    case: Case,
    contenders: Sequence[Contender],
    rounds: Rounds,
    *,
    start: Start = Worker,
    say: Say = print,
) -> Iterator[dict[str, Any]]:
    """Yield one record per contender that has a program for this case.

    `contenders` start with tf_exla: its projection tells whether what holds everything at once
    would fit into this machine. A record has `seconds` [rounds], or `failed` with the reason.
    `start` makes workers; by default each case and each measurement has fresh ones.
    """
    chosen = [one for one in contenders if one.supports(case.work)]
    records: dict[str, dict[str, Any]] = {
        one.name: {"case": asdict(case), "contender": one.name, "packages": one.versions()}
        for one in chosen
    }
    right = reference(case)
    running = []
    for contender in chosen:
        record = records[contender.name]
        whole = records.get(ANCHOR, {}).get("projected_peak_before", 0)
        if contender.holds_all(case.work) and whole > ROOM * available_memory():
            record["failed"] = f"needs {whole / 1e9:.0f} GB, more than this machine has free"
            continue
        say(f"{case.name}: {contender.name}")
        try:
            with start(contender, FREED_BLOCKS_LEAVE) as worker:
                record.update(worker.load(case))
                record.update(worker.ask("about"))
                record.update(worker.ask("peak"))
                record["error"] = compare(case, worker.results(), right)
        except WorkerError as error:
            record["failed"] = str(error)
            continue
        running.append(contender)
    sizes = {one.name: _holds(records[one.name]["peak"]) for one in running}
    for batch in batches(sizes, int(ROOM * available_memory()), ANCHOR):
        say(f"{case.name}: {', '.join(batch)} in turns")
        _time(case, [one for one in running if one.name in batch], records, rounds, start)
    yield from records.values()


def _holds(peak: int | None) -> int:
    return BASELINE + int(POOLED * (peak or 0))


def _time(
    case: Case,
    batch: Sequence[Contender],
    records: dict[str, dict[str, Any]],
    rounds: Rounds,
    start: Start,
) -> None:
    with ExitStack() as stack:
        workers = {}
        for contender in batch:
            try:
                worker = stack.enter_context(start(contender, None))
                records[contender.name].update(worker.load(case))
            except WorkerError as error:
                records[contender.name]["failed"] = str(error)
                continue
            workers[contender.name] = worker
        times = in_turns(workers, least=rounds.least, most=rounds.most, seconds=rounds.seconds)
    anchor = times.get(ANCHOR)
    for name, laps in times.items():
        # The anchor runs in every batch: each contender is compared with its own batch.
        for column, values in laps.items():
            records[name].setdefault(column, []).extend(values)
        if anchor:
            pairs = zip(laps["seconds"], anchor["seconds"], strict=True)
            records[name]["over_anchor"] = median(theirs / ours for theirs, ours in pairs)


def available_memory() -> int:
    """Return the bytes that processes could take now."""
    path = Path("/proc/meminfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
