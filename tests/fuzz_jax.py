"""Random JAX programs against themselves, many of them; `in_jax/test_random.py` has a few.

`python tests/fuzz_jax.py KIND FIRST COUNT` checks COUNT seeds from FIRST on. KIND is `programs` or
`steps` (loops, random numbers, gradients): results within the smallest limit. With `certified` as
KIND, programs are compiled within their smallest limits, and what a call allocates is compared with
what is certified. A line for each seed that fails, and one for all at the end.
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
"""Programs after which JAX's caches are dropped."""


def check_programs(seed: int) -> str:
    """Check the results of a program; what rounding decides may be otherwise."""
    import jax
    from in_jax import test_random

    function, arguments = test_random.program(seed)
    with jax.disable_jit():
        expected = test_random._leaves(function(*arguments))
    try:
        test_random._check(function, arguments, expected, 2)
    except AssertionError:
        if is_as_near(function, arguments, expected):
            return "as near to float64"
        expected = test_random._leaves(jax.jit(function)(*arguments))
        test_random._check(function, arguments, expected, 2)
        return "as jax.jit"
    return "holds"


def is_as_near(function: Any, arguments: Any, expected: Any) -> bool:
    """Return whether a plan is as near to what float64 gives as JAX itself is: what is rounding."""
    import jax
    import numpy as np
    from in_jax import test_random

    import tf_exla.jax

    limit = smallest_limit(function, arguments)
    found = test_random._leaves(tf_exla.jax.jit(function, limit)(*arguments))
    with jax.disable_jit():
        exact = test_random._leaves(function(*(one.astype(np.float64) for one in arguments)))
    errors = [
        [np.abs(one - other).max(initial=0) for one, other in zip(exact, made, strict=True)]
        for made in (found, expected)
    ]
    return all(one <= 2 * stock for one, stock in zip(*errors, strict=True))


def smallest_limit(function: Any, arguments: Any) -> int:
    """Return the smallest limit in bytes within which a program is compiled."""
    import tf_exla.jax

    try:
        tf_exla.jax.jit(function, 1)(*arguments)
    except tf_exla.MemoryLimitError as error:
        return error.smallest_limit
    raise AssertionError("one byte was enough")


def check_steps(seed: int) -> str:
    """Check the results of a training step; some have no gradient in JAX itself."""
    import jax
    from in_jax import test_random

    function, arguments = test_random.steps(seed)
    try:
        expected = test_random._leaves(jax.jit(function)(*arguments))
    except ValueError:
        return "invalid"
    test_random._check(function, arguments, expected, 1)
    return "holds"


def check_certified(seed: int) -> str:
    """Compare what a call allocates with what is certified for its smallest limit."""
    import jax
    from in_jax import test_random
    from jax_measured import growth

    import tf_exla.jax

    function, arguments = test_random.program(seed)
    limit = smallest_limit(function, arguments)
    program = tf_exla.jax.jit(function, limit).call(*arguments)
    made = program.program.certified()
    made.run(*program.operands)
    held = sum(one.size * one.dtype.itemsize for one in map(jax.typeof, program.operands))
    grown = held + growth(lambda: made.run(*program.operands))
    assert grown <= made.certificate.peak <= limit, (grown, made.certificate.peak, limit)
    return "holds"


CHECKS: Mapping[str, Callable[[int], str]] = {
    "certified": check_certified,
    "programs": check_programs,
    "steps": check_steps,
}


def main() -> None:
    kind, first, count = sys.argv[1], *map(int, sys.argv[2:])
    if not os.environ.keys() >= MALLOC.keys():  # malloc reads them as a process starts
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
            print(f"{kind} {seed}: {traceback.format_exc(limit=-1)}", flush=True)
        if seed % PERIOD == 0:
            jax.clear_caches()
    print(
        f"{kind} {first} to {first + count - 1}: {dict(found)}, {time.monotonic() - started:.0f} s"
    )


if __name__ == "__main__":
    main()
