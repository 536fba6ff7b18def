"""Comparisons of random JAX programs with their plans, shared by tests and `fuzz_jax.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tf_exla.jax
from tf_exla import MemoryLimitError
from tf_exla.frontends.jax.restore import restore

Results = list[np.ndarray]
CLOSE = {"float64": 1e-8, "float32": 2e-3}
"""Allowed difference between results, relative to the largest number of the result."""
AMPLIFICATION = 20.0
"""In addition, results may differ by this multiple of the change that one unit of rounding in the
inputs causes in the program itself: sums in another order are no worse."""


def leaves(tree: Any) -> Results:
    """Return the results of a program as arrays, and random keys as their data."""
    return [
        np.asarray(
            jax.random.key_data(one) if jnp.issubdtype(one.dtype, jax.dtypes.prng_key) else one
        )
        for one in map(jnp.asarray, jax.tree.leaves(tree))
    ]


def primitive_by_primitive(function: Callable[..., Any], arguments: Any) -> Results:
    """Run a program without compiling it as a whole."""
    with jax.disable_jit():
        return leaves(function(*arguments))


def planned_results(
    function: Callable[..., Any], arguments: Any, limits: int = 2
) -> Iterator[Results]:
    """Yield results within the smallest limit, and within a limit for twice the working set."""
    call = tf_exla.jax.jit(function, "1GB").call(*arguments)
    smallest = _smallest(lambda: call.program.plan_within(1))
    twice = smallest + call.program.plan_within(smallest).working_set
    for limit in (smallest, twice)[:limits]:
        plan = call.program.plan_within(limit)
        made = jax.jit(restore(plan.graph))(*call.operands, *call.program.constants)
        yield leaves(made)


def smallest_limit(function: Callable[..., Any], arguments: Any) -> int:
    """Return the smallest limit in bytes within which a program is compiled."""
    return _smallest(lambda: tf_exla.jax.jit(function, 1)(*arguments))


def _smallest(run: Callable[[], object]) -> int:
    try:
        run()
    except MemoryLimitError as error:
        return error.smallest_limit
    raise AssertionError("one byte was enough")


def compare(found: Results, expected: Results, near: Callable[[], list[Results]]) -> None:
    """Raise AssertionError if results are further apart than rounding explains.

    `near` returns results that differ from `expected` by rounding only. It is called only if a
    result is not close. An integer result may differ if it differs in any of these, since rounding
    decides which of two nearly equal numbers is the larger.
    """
    others: list[Results] | None = None
    for k, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        finite = np.isfinite(other) if other.dtype.kind == "f" else np.zeros(other.shape, bool)
        allowed = CLOSE.get(other.dtype.name, 0.0) * np.abs(other[finite]).max(initial=0)
        if np.allclose(one, other, rtol=0, atol=allowed, equal_nan=True):
            continue
        others = near() if others is None else others
        if other.dtype.kind != "f":
            assert any(np.any(each[k] != other) for each in others), (one, other)
            continue
        for each in others:
            moved = np.abs(each[k] - other)[finite & np.isfinite(each[k])].max(initial=0)
            allowed = max(allowed, AMPLIFICATION * moved)
        np.testing.assert_allclose(one, other, rtol=0, atol=allowed)


def apart_by_rounding(function: Callable[..., Any], arguments: Any) -> list[Results]:
    """Return JAX's results of the compiled program, and for inputs one unit of rounding away."""
    compiled = jax.jit(function)
    return [
        leaves(compiled(*arguments)),
        leaves(compiled(*nudged(arguments))),
        primitive_by_primitive(function, nudged(arguments)),
    ]


def nudged(arguments: Any) -> list[Any]:
    """Return the arguments with each floating number moved up or down by one unit of rounding."""
    draw = np.random.default_rng(7)

    def moved(one: Any) -> Any:
        if not jnp.issubdtype(jnp.asarray(one).dtype, jnp.floating):
            return one
        array = np.asarray(one)
        towards = np.where(draw.random(array.shape) < 0.5, -np.inf, np.inf)
        return np.nextafter(array, towards.astype(array.dtype))

    return [moved(one) for one in arguments]
