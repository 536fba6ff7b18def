"""The command `fuzz`: workers, a progress bar, a log, and a test file for each failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Queue
from typing import Any

from tf_exla.fuzz.write_test import write_test

ENVIRONMENT = {
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    # Freed blocks return to the system at once, so that the resident set shows what is in use.
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "16384",
    "CUDA_VISIBLE_DEVICES": "-1",
}


def fuzz(seeds: Sequence[int], jobs: int, seconds: float, folder: Path) -> Counter[str]:
    """Check the programs of `seeds` and return how often each verdict was given.

    `seconds`: the time limit of one program. `folder` receives log.jsonl, a line for each program,
    and test_fuzz_SEED.py for each failure. Seeds in the log are not checked again.
    """
    from rich.console import Console
    from rich.progress import track

    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.jsonl"
    known = {one["seed"]: one for one in _read(log)}
    verdicts: Counter[str] = Counter(_verdict(known[k]) for k in seeds if k in known)
    left = [k for k in seeds if k not in known]
    console = Console(stderr=True)
    with log.open("a") as out:
        found = _verdicts(left, jobs, seconds)
        for one in track(found, "programs", total=len(left), console=console):
            out.write(json.dumps(one) + "\n")
            out.flush()
            verdicts[_verdict(one)] += 1
            if one["failure"]:
                path = write_test(one, folder)
                console.print(f"seed {one['seed']}: {one['failure']}: {path}")
    return verdicts


def _verdict(one: dict[str, Any]) -> str:
    return one["failure"] or ("invalid" if "invalid" in one else "holds")


def _read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def _verdicts(seeds: list[int], jobs: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Divide seeds among workers and yield verdicts; a worker that dies gives one, too."""
    queue: Queue[dict[str, Any]] = Queue()
    waiting = list(reversed(seeds))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                batch = [waiting.pop() for _ in range(min(_BATCH, len(waiting)))]
            if not batch:
                return
            for one in _worker(batch, seconds):
                queue.put(one)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for _ in seeds:
        yield queue.get()


_BATCH = 100
"""Programs of one worker, so that importing TensorFlow is a small part of their time."""


def _worker(batch: list[int], seconds: float) -> Iterator[dict[str, Any]]:
    rest = list(batch)
    while rest:
        words = [str(seconds), *map(str, rest)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tf_exla.fuzz.worker", *words],
            env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        done = 0
        for line in process.stdout:
            yield json.loads(line)
            done += 1
        if process.wait() and done < len(rest):
            yield {"seed": rest[done], "failure": "worker died", "details": ""}
            done += 1
        rest = rest[done:]
