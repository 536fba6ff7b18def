"""A worker that draws programs, checks each in a forked process, and shrinks failures.

It imports TensorFlow but runs no op, so that a forked process starts like a fresh one.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tf_exla.fuzz.programs import FuzzProgram, programs

SHRINKING = 40.0
"""Seconds spent on shrinking a failure."""


class Failed(Exception):
    """A program fails. Hypothesis then looks for a smaller program that fails."""


def run_seed(number: int, seconds: float) -> dict[str, Any]:
    """Draw and check the program of a seed, shrink it if it fails, and return the verdict."""
    last: dict[str, Any] = {}
    shrinks_until = 0.0

    @seed(number)
    @settings(
        max_examples=1,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(programs())
    def attempt(program: FuzzProgram) -> None:
        nonlocal last, shrinks_until
        left = shrinks_until - time.monotonic() if shrinks_until else seconds
        if left <= 0:
            return
        found = in_fork(program, min(seconds, left))
        if found["failure"] and last.get("failure", found["failure"]) == found["failure"]:
            last = {**found, "program": program}
            # A time-out is not shrunk: with less time, smaller programs would fail as well.
            allowed = 0.0 if found["failure"] == "time-out" else SHRINKING
            shrinks_until = shrinks_until or time.monotonic() + allowed
            raise Failed
        last = last or {**found, "program": program}

    started = time.monotonic()
    try:
        attempt()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not last.get("failure"):
            raise
    program = last.pop("program")
    verdict = {"seed": number, "seconds": round(time.monotonic() - started, 2), **last}
    if last["failure"]:
        verdict |= {"source": program.source, "inputs": program.inputs, "kind": program.kind}
        verdict["exact"] = program.exact
    return verdict


def in_fork(program: FuzzProgram, seconds: float) -> dict[str, Any]:
    """Check a program in a forked process; a crash or a time-out is a failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _child(program, writing)
    os.close(writing)
    end = time.monotonic() + seconds
    text = b""
    while (left := end - time.monotonic()) > 0:
        if select.select([reading], [], [], left)[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            text += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if text.strip():
        return json.loads(text)  # type: ignore[no-any-return]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return {"failure": "time-out", "details": f"more than {seconds:.0f} s"}
    if not text:
        return {"failure": "", "invalid": f"TensorFlow alone dies of it: status {status}"}
    return {"failure": "crash", "details": f"status {status}"}


def _child(program: FuzzProgram, writing: int) -> None:
    import traceback

    from tf_exla.fuzz.check import check

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        found = check(program, ran=lambda: os.write(writing, b"\n"))
    except BaseException:
        lines = traceback.format_exc().strip().splitlines()
        found = {"failure": "exception", "details": "\n".join(lines[-12:])}
    os.write(writing, json.dumps(found).encode())
    os._exit(0)


def prepare() -> None:
    """Import what programs need, once for all forks, and exclude it from garbage collection.

    Otherwise each collection before a measurement would visit, and copy, all objects of TensorFlow.
    """
    import tf_exla.api
    import tf_exla.fuzz.check  # noqa: F401

    gc.collect()
    gc.freeze()


def main() -> None:
    """Check the seeds given as `seconds seed ...` and print a JSON line for each."""
    seconds, *seeds = sys.argv[1:]
    prepare()
    for number in map(int, seeds):
        print(json.dumps(run_seed(number, float(seconds))), flush=True)


if __name__ == "__main__":
    main()
