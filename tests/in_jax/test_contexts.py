"""Functions within a limit in the contexts and transformations that `jax.jit` takes part in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tf_exla.jax

X = Any
POINTS = np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32)
WITHIN = pytest.mark.parametrize("within", [tf_exla.jax.jit, tf_exla.jax.optimize])


@WITHIN
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - lax.pmean(x, "b")) / jnp.sqrt(1 + lax.pmean(x**2, "b")),
        lambda x: x * lax.axis_index("b"),
        lambda x: (lax.psum(x, "b"), x.sum()),
        lambda x: jax.grad(lambda x: lax.pmean((x**3).sum(), "b"))(x),
    ],
)
def test_collectives_over_a_batch(within: Any, function: Callable[[X], X]) -> None:
    expected = jax.vmap(jax.jit(function), axis_name="b")(POINTS)
    found = jax.vmap(within(function, "1GB"), axis_name="b")(POINTS)
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@WITHIN
def test_results_that_do_not_depend_on_the_batch(within: Any) -> None:
    def function(x: X, y: X) -> X:
        return x + 1, jnp.cumsum(y)

    planned = within(function, "1GB")
    y = jnp.arange(3.0)
    made, same = jax.vmap(planned, (0, None), out_axes=(0, None))(POINTS, y)
    np.testing.assert_allclose(made, POINTS + 1)
    np.testing.assert_allclose(same, [0, 1, 3])
    total = jax.grad(lambda y: jax.vmap(planned, (0, None), (0, None))(POINTS, y)[1].sum())(y)
    np.testing.assert_allclose(total, [3, 2, 1])


@WITHIN
def test_disable_jit(within: Any) -> None:
    seen: list[str] = []

    def function(x: X) -> X:
        seen.append(type(x).__name__)
        return x * 2 if x.sum() > 1e9 else x * 3  # fails for a tracer

    with jax.disable_jit():
        np.testing.assert_allclose(within(function, "1GB")(jnp.asarray(POINTS)), 3 * POINTS)
    assert seen == ["ArrayImpl"]


@WITHIN
def test_debug_nans(within: Any) -> None:
    planned = within(lambda x: jnp.log(x - 9.0).sum(), "1GB")
    jax.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            planned(jnp.ones((10, 3)))
    finally:
        jax.config.update("jax_debug_nans", False)


@WITHIN
def test_deepcopy(within: Any) -> None:
    planned = within(lambda x: x + 1, "1GB")
    assert copy.deepcopy({"f": planned})["f"](1.0) == 2.0
