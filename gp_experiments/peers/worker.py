"""One contender in a process of its own: build, run once, then answer requests line by line.

Requests: "run" -> a `Lap`, "peak" -> {"peak"}, "about" -> facts, "save PATH" -> {}. End of
input ends the process. Answers are lines of JSON on the standard output, which libraries do not
get.
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


def main(contender: str, case: Case, answers: IO[str]) -> None:
    """Serve requests for one contender's program."""
    data = arguments(case)
    build = NAMED[contender].build(case.work)
    start = time.perf_counter()
    program = build(case, data)
    built = time.perf_counter()
    program.call()
    first = time.perf_counter()
    size = sum(value.nbytes for value in data.values())
    _answer(answers, build_seconds=built - start, first_seconds=first - built, data_bytes=size)
    for line in sys.stdin:
        request, _, operand = line.strip().partition(" ")
        _answer(answers, **_serve(program, request, operand))


def _serve(program: Program, request: str, operand: str) -> dict[str, Any]:
    if request == "run":
        return lap(program.call)._asdict()
    if request == "peak":
        return {"peak": growth(program.call)}
    if request == "about":
        return program.about()
    if request == "save":
        np.savez(operand, **{name: np.asarray(value) for name, value in program.call().items()})
        return {}
    raise ValueError(f"no such request: {request!r}")


def _answer(answers: IO[str], **values: Any) -> None:
    print(json.dumps(values), file=answers, flush=True)


if __name__ == "__main__":
    # Compilers and libraries print: what they print goes to the standard error.
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.argv[1], Case(**json.loads(sys.argv[2])), stream)
