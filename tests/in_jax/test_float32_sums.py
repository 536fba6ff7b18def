"""Sums of float32 over many chunks are about as close to the sum in float64 as JAX's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import enable_x64

import tf_exla
import tf_exla.jax

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=1501).astype("float32"), RNG.normal(size=1201).astype("float32")


def around_ten_thousand(x: Any, z: Any) -> Any:
    """The variance is the difference from a mean that is large in comparison."""
    values = 1e4 + x[:, None] * z
    return jnp.mean(values), jnp.var(values)


def columns(x: Any, z: Any) -> Any:
    return jnp.mean(jnp.exp(x[:, None] * z[:500]), 0)


def losses_in_a_loop(x: Any, z: Any) -> Any:
    shifts = jnp.asarray([0.1, 0.2, 0.3], x.dtype)

    def step(total: Any, shift: Any) -> Any:
        return total + jnp.mean(jnp.tanh(x[:, None] * z - shift)), None

    return lax.scan(step, jnp.zeros([], x.dtype), shifts)[0]


def with_gradient(x: Any, z: Any) -> Any:
    return jax.value_and_grad(lambda x: jnp.sum(jnp.sqrt(1.0 + (x[:, None] * z) ** 2)))(x)


def gram(x: Any, z: Any) -> Any:
    """The result is larger than sums that are accumulated with more digits."""
    k = jnp.exp(-0.5 * (jnp.repeat(x, 40)[:, None] - z[:300]) ** 2)
    return k.T @ k


def smallest_limit(function: Callable[..., Any], *arguments: Any) -> int:
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.jax.optimize(function, 1)(*arguments)
    return info.value.smallest_limit


@pytest.mark.parametrize("factor", [1.0, 1.05, 1.3])
@pytest.mark.parametrize(
    "function", [around_ten_thousand, columns, losses_in_a_loop, with_gradient, gram]
)
def test_sums_are_as_close_as_those_of_jax(function: Callable[..., Any], factor: float) -> None:
    with enable_x64():
        true = jax.tree.leaves(jax.jit(function)(*(jnp.asarray(one, "float64") for one in (X, Z))))
    limit = int(factor * smallest_limit(function, X, Z))
    optimized = tf_exla.jax.optimize(function, limit)
    outputs = (jax.tree.leaves(one(X, Z)) for one in (jax.jit(function), optimized))
    for expected, found, exact in zip(*outputs, true, strict=True):
        assert found.dtype == jnp.float32
        size = np.max(np.abs(exact))
        error, usual = (np.max(np.abs(one - np.asarray(exact))) / size for one in (found, expected))
        # XLA adds the numbers of one chunk in another order than those of the whole tensor.
        assert error <= 2 * usual + 5e-7


def test_infinite_sums_and_nan() -> None:
    def sums(x: Any, z: Any) -> Any:
        big = jnp.exp(x[:, None] * z)
        return jnp.sum(big, 0), jnp.sum(big * 1e36), jnp.sum(-big * 1e36, 1)

    x, z = 30 * X, Z.copy()
    z[7] = np.nan
    optimized = tf_exla.jax.optimize(sums, smallest_limit(sums, x, z))
    for expected, found in zip(jax.jit(sums)(x, z), optimized(x, z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert jnp.isnan(found).all()
    z[7] = 0
    for expected, found in zip(jax.jit(sums)(x, z), optimized(x, z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert jnp.isinf(found).any()
