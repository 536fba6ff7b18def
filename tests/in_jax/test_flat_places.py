"""Sums at pairs of indices are segment sums, which are split along what is added."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_captured import capture
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax.restore import restore

RNG = np.random.default_rng(0)


def places(*shape: int, most: int, dtype: str = "int32") -> jax.Array:
    return jnp.asarray(RNG.integers(0, most, shape), dtype)


def compared(function: Any, *arguments: jax.Array) -> list[str]:
    """Compare the captured program with JAX; return its ops."""
    made = capture(function, *arguments)
    found = jax.tree.leaves(restore(made.graph)(*arguments, *made.constants))
    for one, want in zip(found, jax.tree.leaves(jax.jit(function)(*arguments)), strict=True):
        np.testing.assert_allclose(one, want, 1e-5, 1e-5)
    return [node.op for node in made.graph.nodes]


@pytest.mark.parametrize("mode", ["drop", "clip", "promise_in_bounds"])
@pytest.mark.parametrize("shape", [(50,), (10, 7)])
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint32"])
def test_pairs(mode: str, shape: tuple[int, ...], dtype: str) -> None:
    reach = 0 if mode == "promise_in_bounds" else 15
    i, j = (places(*shape, most=most + reach, dtype=dtype) for most in (20, 30))
    values = jnp.asarray(RNG.normal(size=shape), "float32")

    def function(i: Any, j: Any, values: Any) -> Any:
        return jnp.zeros((20, 30)).at[i, j].add(values, mode=mode)

    assert "segment_sum" in compared(function, i, j, values)


def test_other_axes() -> None:
    i, j = places(40, most=6), places(40, most=5)
    values = jnp.asarray(RNG.normal(size=(40, 4)), "float32")

    def last(i: Any, j: Any, values: Any) -> Any:
        return jnp.zeros((6, 5, 4)).at[i, j].add(values)

    def first(i: Any, j: Any, values: Any) -> Any:
        return jnp.zeros((4, 6, 5)).at[:, i, j].add(values.T)

    def ends(i: Any, j: Any, values: Any) -> Any:
        return jnp.zeros((6, 4, 5)).at[i, :, j].add(values)

    def three(i: Any, j: Any, values: Any) -> Any:
        return jnp.zeros((6, 5, 40)).at[i, j, jnp.arange(40)].add(values[:, 0])

    for function in (last, first, ends):
        assert "segment_sum" in compared(function, i, j, values)
    compared(three, i, j, values)  # updates of rows of their own


def test_the_gradient_of_a_gather() -> None:
    x = jnp.asarray(RNG.normal(size=(20, 30)), "float32")
    i, j = places(50, most=20), places(50, most=30)
    compared(jax.grad(lambda x: (x[i, j] ** 2).sum()), x)


def test_wide_indices_outside() -> None:
    """An index that int32 cannot hold is outside, whatever its lower bits are."""
    with enable_x64():
        i, j = jnp.asarray([1, 2**32 + 1, 2**40 + 3]), jnp.asarray([2, 2, 2])

        def function(i: Any, j: Any) -> Any:
            return jnp.zeros((4, 5)).at[i, j].add(1.0, mode="drop")

        compared(function, i, j)


def test_what_is_added_is_split() -> None:
    """Histograms of pairs: the added values are computed in chunks."""
    x = places(400_000, most=2**20)

    def histogram(x: Any) -> Any:
        return jnp.zeros((100, 100)).at[x % 100, (x // 7) % 100].add(jnp.exp(x / 2**20))

    found = jax.jit(histogram).lower(x).compile().memory_analysis()
    peak = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
    with pytest.raises(MemoryLimitError) as caught:
        tf_exla.jax.jit(histogram, 1000)(x)
    assert caught.value.smallest_limit < max(x.nbytes + 2_000_000, peak // 2)
    made = tf_exla.jax.jit(histogram, caught.value.smallest_limit)(x)
    np.testing.assert_allclose(made, histogram(x), 1e-4, 1e-4)
