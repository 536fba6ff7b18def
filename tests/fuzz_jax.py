"""Compare many random JAX programs with their plans; `in_jax/test_random.py` has a few.

`python tests/fuzz_jax.py KIND FIRST COUNT` checks COUNT seeds from FIRST on. The kinds `programs`
and `steps` (loops, random numbers, gradients) compare results within the smallest limit. The kind
`certified` compiles programs within their smallest limits, and compares the bytes that a call
allocates with the certified peak. Each seed that fails prints a line; a summary comes last.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Freed blocks go back to the system at once, so that the resident set shows what is allocated.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "16384"}
TESTS = Path(__file__).resolve().parent
PERIOD = 20
"""Number of programs after which JAX's caches are cleared."""


def check_programs(seed: int) -> str:
    """Check the results of a program."""
    from jax_compared import apart_by_rounding, planned_results, primitive_by_primitive
    from random_jax import program

    function, arguments = program(seed)
    expected = primitive_by_primitive(function, arguments)
    found = planned_results(function, arguments)
    return _verdict(found, expected, lambda: apart_by_rounding(function, arguments))


def check_steps(seed: int) -> str:
    """Check the results of a training step; some have no gradient in JAX itself."""
    import jax
    from jax_compared import leaves, nudged, planned_results
    from random_jax_steps import program

    function, arguments = program(seed)
    compiled = jax.jit(function)
    try:
        expected = leaves(compiled(*arguments))
    except ValueError:
        return "invalid"
    found = planned_results(function, arguments, limits=1)
    return _verdict(found, expected, lambda: [leaves(compiled(*nudged(arguments)))])


def _verdict(found: Any, expected: Any, near: Callable[[], Any]) -> str:
    """Compare results at each limit; return whether they hold or differ by rounding."""
    from jax_compared import compare

    verdict = "holds"

    def asked() -> Any:
        nonlocal verdict
        verdict = "differs by rounding"
        return near()

    for one in found:
        compare(one, expected, asked)
    return verdict


def check_certified(seed: int) -> str:
    """Compare the bytes that a call allocates with the certified peak at its smallest limit."""
    import jax
    from jax_compared import smallest_limit
    from jax_measured import growth
    from random_jax import program

    import tf_exla.jax

    function, arguments = program(seed)
    limit = smallest_limit(function, arguments)
    call = tf_exla.jax.jit(function, limit).call(*arguments)
    made = call.program.certified()
    made.run(*call.operands)
    held = sum(one.size * one.dtype.itemsize for one in map(jax.typeof, call.operands))
    grown = held + growth(lambda: made.run(*call.operands))
    assert grown <= made.certificate.peak <= limit, (grown, made.certificate.peak, limit)
    return "holds"


CHECKS: Mapping[str, Callable[[int], str]] = {
    "certified": check_certified,
    "programs": check_programs,
    "steps": check_steps,
}


def main() -> None:
    kind, first, count = sys.argv[1], *map(int, sys.argv[2:])
    if not os.environ.keys() >= MALLOC.keys():  # malloc reads them when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]
    import jax
    from jax_measured import warm

    jax.config.update("jax_enable_x64", True)
    if kind == "certified":
        warm()
    started = time.monotonic()
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found[CHECKS[kind](seed)] += 1
        except Exception:
            found["fails"] += 1
            print(f"{kind} {seed}: {traceback.format_exc(limit=-4)}", flush=True)
        if seed % PERIOD == 0:
            jax.clear_caches()
    print(
        f"{kind} {first} to {first + count - 1}: {dict(found)}, {time.monotonic() - started:.0f} s"
    )


if __name__ == "__main__":
    main()
