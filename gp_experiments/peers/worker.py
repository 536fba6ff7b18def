"""One contender in a process of its own: it answers requests line by line.

"case JSON" builds the program of a case and runs it once; then "run" -> a `Lap` (where calls are
short, of a second one), "peak" -> bytes, "about" -> facts, "save PATH" -> {}. Each answer is a line
of JSON on the standard output, which libraries do not get; {"failed": reason} where a case cannot
be built or run. End of input ends the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import IO, Any

import numpy as np

from gp_experiments.peers.cases import Case
from gp_experiments.peers.contenders import NAMED
from gp_experiments.peers.data import arguments
from gp_experiments.peers.peak import growth
from gp_experiments.peers.program import Program
from gp_experiments.peers.stopwatch import lap

SHORT = 1.0
"""Seconds: a shorter call runs twice, and the second counts. While a process waits for its turn,
caches become another's and a virtual machine may take memory back; users call again at once."""


def main(contender: str, requests: IO[str], answers: IO[str]) -> None:
    """Serve requests for one contender's programs."""
    program: Program | None = None
    for line in requests:
        request, _, operand = line.strip().partition(" ")
        try:
            if request == "case":
                program = None  # what it holds is freed before the next one
                program, answer = _load(contender, Case(**json.loads(operand)))
            else:
                assert program is not None, "no case was loaded"
                answer = _serve(program, request, operand)
        except Exception as error:  # any library's: it is the contender's result
            answer = {"failed": f"{type(error).__name__}: {_first_line(error)}"}
        print(json.dumps(answer), file=answers, flush=True)


def _load(contender: str, case: Case) -> tuple[Program, dict[str, Any]]:
    data = arguments(case)
    build = NAMED[contender].build(case.work)
    start = time.perf_counter()
    program = build(case, data)
    built = time.perf_counter()
    program.call()
    first = time.perf_counter()
    return program, {
        "build_seconds": built - start,
        "first_seconds": first - built,
        "data_bytes": sum(value.nbytes for value in data.values()),
    }


def _serve(program: Program, request: str, operand: str) -> dict[str, Any]:
    if request == "run":
        first = lap(program.call)
        return (lap(program.call) if first.seconds < SHORT else first)._asdict()
    if request == "peak":
        return {"peak": growth(program.call)}
    if request == "about":
        return program.about()
    if request == "save":
        np.savez(operand, **{name: np.asarray(value) for name, value in program.call().items()})
        return {}
    raise ValueError(f"no such request: {request!r}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


if __name__ == "__main__":
    # Compilers and libraries print: what they print goes to the standard error.
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.argv[1], sys.stdin, stream)
