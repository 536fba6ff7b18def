"""Scans that reduce over the batch in each step are split along the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_x64 import enable_x64

import tf_exla
import tf_exla.jax

X = Any
RNG = np.random.default_rng(0)
BATCH, STEPS = 601, 16


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def mean_of_each_step(x: X, w: X) -> X:
    """As an ODE with a penalty, or an RNN with a loss in each step; the means are then bent."""

    def step(h: X, t: X) -> tuple[X, X]:
        h = jnp.tanh(h @ w + t)
        return h, (h**2).mean()

    last, means = lax.scan(step, x, jnp.arange(STEPS) / STEPS)
    return last.mean() + jnp.log(1 + means).sum()


def sums_of_features(x: X, w: X) -> X:
    def step(h: X, t: X) -> tuple[X, tuple[X, X]]:
        h = jnp.sin(h @ w + t)
        return h, (h.sum(0), 2 * t)  # the second does not depend on the batch

    _, (sums, times) = lax.scan(step, x, jnp.arange(STEPS) / STEPS)
    return (sums**2).sum() * times.sum()


def written_into_ones(x: X, w: X) -> X:
    """The buffer does not start from zero, so the chunks' buffers cannot be added."""

    def step(t: X, state: tuple[X, X]) -> tuple[X, X]:
        h, kept = state
        h = jnp.tanh(h @ w)
        return h, kept.at[t].set((h**2).mean())

    _, kept = lax.fori_loop(0, STEPS, step, (x, jnp.ones(STEPS + 3)))
    return jnp.log(kept).sum()


def constants_between(x: X, w: X) -> X:
    """Each step also writes a number that every chunk would write."""

    def step(t: X, state: tuple[X, X]) -> tuple[X, X]:
        h, kept = state
        h = jnp.tanh(h @ w)
        return h, kept.at[t].set((h**2).mean()).at[STEPS].set(7.0)

    _, kept = lax.fori_loop(0, STEPS, step, (x, jnp.zeros(STEPS + 3)))
    return (kept**2).sum()


def smallest_limit(function: Callable[..., Any], *arguments: X) -> int:
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.jax.jit(function, 1)(*arguments)
    return info.value.smallest_limit


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(
    ("loss", "splits"),
    [
        (mean_of_each_step, True),
        (sums_of_features, True),
        (written_into_ones, False),
        (constants_between, False),
    ],
)
def test_numbers_and_memory(loss: Callable[..., Any], splits: bool, gradient: bool) -> None:
    if gradient and loss in (written_into_ones, constants_between):
        function: Callable[..., Any] = jax.jit(lambda x, w: (loss(x, w), jnp.sin(x @ w).sum()))
    else:
        function = jax.value_and_grad(loss, 1) if gradient else loss
    given = RNG.normal(size=(BATCH, 48)), 0.2 * RNG.normal(size=(48, 48))
    smallest = smallest_limit(function, *given)
    stock = jax.jit(function).lower(*given).compile().memory_analysis()
    if splits:
        assert smallest < (0.5 if gradient else 1.1) * (stock.temp_size_in_bytes + (1 << 20))
    expected = jax.tree.leaves(jax.jit(function)(*given))
    made = jax.tree.leaves(tf_exla.jax.jit(function, smallest)(*given))
    for found, want in zip(made, expected, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
