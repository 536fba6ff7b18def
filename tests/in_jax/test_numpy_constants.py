"""Arrays of NumPy in a function, whose dtypes JAX shortens unless x64 is enabled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_x64 import enable_x64

import tf_exla.jax

X = Any
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(701, 3)).astype(np.float32)
LIMIT = "1.5MB"
# New arrays for each trace: JAX 0.11 shortens an array once, and mixes dtypes when x64 is switched.


def places() -> X:
    """Return 64-bit integers."""
    return np.random.default_rng(1).choice(701, 50, replace=False)


def weights() -> X:
    return np.linspace(0.0, 1.0, 3)


def _k(x: X) -> X:
    return jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1))


FUNCTIONS: Mapping[str, Callable[[X], X]] = {
    "rows": lambda x: _k(x)[places()].sum(1),
    "unsigned rows": lambda x: _k(x)[places().astype(np.uint64)].sum(1),
    "columns": lambda x: jnp.take(_k(x), places(), axis=1).sum(0),
    "elements": lambda x: _k(x)[places(), places()],
    "rows set": lambda x: _k(x).at[places()].set(0.0).sum(1),
    "rows added": lambda x: _k(x).sum(1).at[places()].add(1.0),
    "scan": lambda x: lax.scan(lambda c, at: (c + x[at].sum() * _k(x).sum(), at), 0.0, places()),
    "weights": lambda x: _k(x * weights()).sum(1),
    "branch": lambda x: lax.cond(
        x[0, 0] > 9, lambda: _k(x)[places()].sum(1), lambda: _k(2 * x)[places()[::-1]].sum(1)
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_constants_have_the_dtypes_of_jax(name: str, x64: bool) -> None:
    function = FUNCTIONS[name]
    with enable_x64(x64):
        expected = jax.tree.leaves(jax.jit(function)(POINTS))
        found = jax.tree.leaves(tf_exla.jax.jit(function, LIMIT)(POINTS))
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int32", "uint64", "int64"])
@pytest.mark.parametrize("reduce", [jnp.min, jnp.max])
def test_extremes_of_integers(dtype: str, reduce: Callable[..., X]) -> None:
    numbers = RNG.integers(1, 200, 1501).astype(dtype)

    def function(x: X) -> X:
        return reduce(jnp.bitwise_xor(x[:, None], x[None]), axis=1)

    for x64 in (False, True):
        with enable_x64(x64):
            expected, found = (
                jax.jit(function)(numbers),
                tf_exla.jax.jit(function, "1.2MB")(numbers),
            )
        assert expected.dtype == found.dtype
        np.testing.assert_array_equal(expected, found)
