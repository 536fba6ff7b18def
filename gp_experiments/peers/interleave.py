"""Contenders in turns: each waits in its own process, and only one computes at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from gp_experiments.peers.cases import Case
from gp_experiments.peers.contenders import Contender
from gp_experiments.peers.data import Array
from gp_experiments.peers.stopwatch import Lap


class WorkerError(RuntimeError):
    """A contender failed; the message is its error, or the end of what its process wrote."""


class Worker:
    """A contender's process; see `worker.py` for requests and answers."""

    def __init__(self, contender: Contender, environment: Mapping[str, str] | None = None) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, closed in _end
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gp_experiments.peers.worker", contender.name],
            env={**os.environ, **contender.environment, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def load(self, case: Case) -> dict[str, Any]:
        """Build the program of a case and run it once; return what that took."""
        return self.ask(f"case {json.dumps(asdict(case))}")

    def ask(self, request: str) -> dict[str, Any]:
        """Send a request; return the answer. Raises WorkerError where it failed."""
        assert self.process.stdin is not None
        try:
            print(request, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure() from None
        return self._read()

    def results(self) -> dict[str, Array]:
        """Compute once more and return the results."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.npz"
            self.ask(f"save {path}")
            with np.load(path) as file:
                return {name: file[name] for name in file.files}

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._failure()
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise WorkerError(answer["failed"])
        return answer

    def _failure(self) -> WorkerError:
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        killed = " (killed: out of memory?)" if code == -9 else ""
        return WorkerError(f"exit status {code}{killed}: {lines[-1] if lines else 'no message'}")

    def _end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it ended before, and what was asked last is lost
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class KeptWorkers:
    """A function that starts as `Worker` does, but keeps one process per contender for all cases.

    For many small cases, where starting takes longer than computing. All have one environment.
    """

    def __init__(self, stack: ExitStack, environment: Mapping[str, str]) -> None:
        self.stack, self.environment = stack, environment
        self.workers: dict[str, Worker] = {}

    def __call__(
        self, contender: Contender, environment: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Worker]:
        if contender.name not in self.workers:
            worker = self.stack.enter_context(Worker(contender, self.environment))
            self.workers[contender.name] = worker
        return nullcontext(self.workers[contender.name])


def in_turns(
    workers: Mapping[str, Worker], *, least: int, most: int, seconds: float
) -> dict[str, dict[str, list[Any]]]:
    """Run all round robin: at least `least` rounds, at most `most`; between them, what has time.

    Returns for each the columns of its laps (`stopwatch.Lap`).
    """
    times: dict[str, dict[str, list[Any]]] = {
        name: {column: [] for column in Lap._fields} for name in workers
    }
    start = time.perf_counter()
    for round_ in range(most):
        if round_ >= least and time.perf_counter() - start > seconds:
            break
        for name, worker in workers.items():
            time.sleep(0.05)  # the threads of the one before fall asleep
            for column, value in worker.ask("run").items():
                times[name][column].append(value)
    return times


def batches(sizes: Mapping[str, int], room: int, anchor: str) -> list[list[str]]:
    """Group names so that the sizes of each group fit into `room`; `anchor` is in every group.

    Waiting processes keep what their allocators have: not all may fit side by side. A name that
    does not fit beside the anchor has a group alone with it.
    """
    left = room - sizes.get(anchor, 0)
    groups: list[list[str]] = []
    free: list[int] = []
    for name in sorted((n for n in sizes if n != anchor), key=lambda n: -sizes[n]):
        at = next((i for i, space in enumerate(free) if sizes[name] <= space), None)
        if at is None:
            groups.append([])
            free.append(left)
            at = len(groups) - 1
        groups[at].append(name)
        free[at] -= sizes[name]
    start = [anchor] if anchor in sizes else []
    return [[*start, *group] for group in groups] or [start]
