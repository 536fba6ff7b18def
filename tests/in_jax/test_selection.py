"""Medians and quantiles of all elements, within a limit and with the numbers of JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax_captured import kernel
from jax_x64 import enable_x64
from samples import but

import tf_exla.jax
from tf_exla.errors import MemoryLimitError

X = Any
N = 701
PROGRAMS: dict[str, Callable[[X], X]] = {
    "median": lambda x: jnp.median(kernel(x, x)),
    "quantiles": lambda x: jnp.percentile(kernel(x, x), jnp.array([1.0, 50.0, 99.0])),
    "bandwidth": lambda x: jnp.mean(jnp.exp(-kernel(x, x) / jnp.median(kernel(x, x)))),
    "place": lambda x: jnp.sort(kernel(x, x).ravel())[-N],
}


FLOATS = [
    pytest.param(True, id="float64"),
    pytest.param(False, id="float32", marks=pytest.mark.thorough),
]


@pytest.fixture(params=FLOATS)
def x(request: pytest.FixtureRequest) -> Iterator[X]:
    with enable_x64(request.param):
        yield jnp.asarray(np.random.default_rng(0).normal(size=(N, 3)))


# Other tests have the median in float32, and places where numbers are missing.
@pytest.mark.parametrize("name", but(["median", "place", "bandwidth"], PROGRAMS))
def test_numbers(name: str, x: X) -> None:
    function, whole = PROGRAMS[name], N * N * x.dtype.itemsize
    with pytest.raises(MemoryLimitError) as error:
        tf_exla.jax.jit(function, 1)(x)
    assert error.value.smallest_limit < (1 << 20) + whole // 3
    within = tf_exla.jax.jit(function, (1 << 20) + whole // 2)
    expected = np.asarray(function(x))
    np.testing.assert_allclose(within(x), expected, rtol=1e-12 if whole > 3e6 else 1e-5)


def test_float32() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(N, 3)), jnp.float32)
    test_numbers("median", x)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("place", [0, N, N * N - 3 * N, N * N - 1])
def test_nans_come_last_in_falling_order_too(place: int, x: X) -> None:
    def function(x: X) -> X:
        return -jnp.sort(-kernel(x, x).ravel())[place]

    whole = N * N * x.dtype.itemsize
    x = x.at[3].set(jnp.nan)
    got = tf_exla.jax.jit(function, (1 << 20) + whole // 2)(x)
    np.testing.assert_allclose(got, function(x), rtol=1e-5)


def test_nan_is_the_median(x: X) -> None:
    whole = N * N * x.dtype.itemsize
    within = tf_exla.jax.jit(PROGRAMS["median"], (1 << 20) + whole // 2)
    assert np.isnan(within(x.at[3].set(jnp.nan)))
