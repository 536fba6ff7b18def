"""Measure one case: every contender's error and peak alone, then all their times in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gp_experiments.peers.cases import Case
from gp_experiments.peers.contenders import Contender
from gp_experiments.peers.data import compare, reference
from gp_experiments.peers.interleave import Worker, WorkerError, batches, gather, in_turns
from gp_experiments.peers.peak import FREED_BLOCKS_LEAVE

ANCHOR = "tf_exla"
BASELINE = 700 << 20  # bytes of a process with its libraries loaded
POOLED = 1.5  # what an allocator with a pool may hold, over the peak
ROOM = 0.8  # of the available memory, for processes that wait

Say = Callable[[str], None]


@dataclass(frozen=True)
class Rounds:
    """How often each contender runs: as often as fits into `seconds`, from `least` to `most`."""

    least: int = 3
    most: int = 15
    seconds: float = 30.0


def measure(
    case: Case, contenders: Sequence[Contender], rounds: Rounds, say: Say = print
) -> Iterator[dict[str, Any]]:
    """Yield one record per contender that has a program for this case.

    `contenders` start with tf_exla: its projection tells whether what holds everything at once
    would fit into this machine. A record has `seconds` [rounds], or `failed` with the reason.
    """
    records = {one.name: _record(case, one) for one in contenders if one.supports(case.work)}
    right = reference(case)
    running: list[Contender] = []
    for contender in contenders:
        if contender.name not in records:
            continue
        record = records[contender.name]
        whole = records.get(ANCHOR, {}).get("projected_peak_before", 0)
        if contender.holds_all(case.work) and whole > ROOM * available_memory():
            record["failed"] = f"needs {whole / 1e9:.0f} GB, more than this machine has free"
            continue
        say(f"{case.name}: {contender.name}")
        try:
            with Worker(contender, case, FREED_BLOCKS_LEAVE) as worker:
                record.update(worker.ask("about"))
                record.update(worker.ask("peak"))
                record["error"] = compare(case, worker.results(), right)
        except WorkerError as error:
            record["failed"] = str(error)
            continue
        running.append(contender)
    _times(case, running, records, rounds, say)
    yield from records.values()


def _record(case: Case, contender: Contender) -> dict[str, Any]:
    return {"case": asdict(case), "contender": contender.name, "packages": contender.versions()}


def _times(
    case: Case,
    contenders: Sequence[Contender],
    records: dict[str, dict[str, Any]],
    rounds: Rounds,
    say: Say,
) -> None:
    sizes = {
        one.name: BASELINE + int(POOLED * (records[one.name]["peak"] or 0)) for one in contenders
    }
    for batch in batches(sizes, int(ROOM * available_memory()), ANCHOR):
        say(f"{case.name}: {', '.join(batch)} in turns")
        with ExitStack() as stack:
            ready, failed = gather(stack, [o for o in contenders if o.name in batch], case)
            for name, reason in failed.items():
                records[name]["failed"] = reason
            times = in_turns(ready, least=rounds.least, most=rounds.most, seconds=rounds.seconds)
            for name, laps in times.items():
                # The anchor runs in every batch: each contender is compared with its own batch.
                record = records[name]
                for column, values in laps.items():
                    record.setdefault(column, []).extend(values)
                record.update(ready[name].ready)
                if ANCHOR in times:
                    record["over_anchor"] = median(
                        theirs / ours
                        for theirs, ours in zip(
                            laps["seconds"], times[ANCHOR]["seconds"], strict=True
                        )
                    )


def available_memory() -> int:
    """Return the bytes that processes could take now."""
    path = Path("/proc/meminfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
