"""Convolutions in the fast order of axes: the numbers of JAX, for all orders and attributes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import capture

import tf_exla.jax
from tf_exla.frontends.jax.restore import restore

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strided": {"window_strides": (2, 3)},
    "dilated filters": {"rhs_dilation": (2, 1), "padding": [(2, 1), (0, 3)]},
    "transposed": {"lhs_dilation": (2, 2), "padding": [(1, 2), (2, 1)]},
    "cropped": {"padding": [(-1, 0), (0, -2)]},
    "groups of features": {"feature_group_count": 2},
    "each feature alone": {"feature_group_count": 4},
    "groups of a batch": {"batch_group_count": 2},
}
ORDERS = [
    ("NHWC", "HWIO", "NHWC"),
    ("NCHW", "OIHW", "NCHW"),
    ("CHWN", "IHWO", "HWNC"),
    ("HCNW", "WOHI", "WNCH"),
]


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), "float32")


def ordered(sizes: dict[str, int], axes: str, seed: int) -> jax.Array:
    return normal(*(sizes[axis] for axis in axes), seed=seed)


def captured(function: Any, *arguments: jax.Array) -> Any:
    """Return the results of the captured program."""
    made = capture(function, *arguments)
    return jax.jit(restore(made.graph))(*arguments, *made.constants)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[0])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients(kind: str, order: tuple[str, str, str]) -> None:
    given = {"window_strides": (1, 1), "padding": "SAME", **KINDS[kind]}
    groups = given.get("feature_group_count", 1)
    image = ordered({"N": 4, "H": 9, "W": 8, "C": 4}, order[0], 1)
    filters = ordered({"H": 3, "W": 2, "I": 4 // groups, "O": 8}, order[1], 2)

    def loss(image: Any, filters: Any) -> Any:
        made = lax.conv_general_dilated(image, filters, dimension_numbers=order, **given)
        return (jnp.sin(made) ** 2 * jnp.arange(made.size).reshape(made.shape)).sum()

    both = jax.value_and_grad(loss, (0, 1))
    expected = jax.tree.leaves(jax.jit(both)(image, filters))
    for one, want in zip(captured(both, image, filters), expected, strict=True):
        np.testing.assert_allclose(one, want, 1e-4, 1e-4 * float(np.abs(want).max()))


@pytest.mark.parametrize("rank", [1, 3])
def test_other_numbers_of_windows(rank: int) -> None:
    image, filters = normal(2, *[7] * rank, 3), normal(*[3] * rank, 3, 5, seed=1)
    axes = "DHW"[-rank:]
    order = (f"N{axes}C", f"{axes}IO", f"N{axes}C")

    def loss(filters: Any) -> Any:
        made = lax.conv_general_dilated(
            image, filters, (2,) * rank, "VALID", dimension_numbers=order
        )
        return (made**2).sum()

    (found,) = captured(jax.grad(loss), filters)
    want = jax.grad(loss)(filters)
    np.testing.assert_allclose(found, want, 1e-4, 1e-4 * float(np.abs(want).max()))


def test_a_filters_gradient_in_a_loop_has_the_fast_order() -> None:
    """XLA's other code has no name in the module, so the orders of axes are compared."""
    x, filters = normal(16, 24, 24, 8), normal(3, 3, 8, 16, seed=1)

    def loss(filters: Any, x: Any) -> Any:
        made = lax.conv_general_dilated(
            x, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jnp.tanh(made).sum()

    call = tf_exla.jax.jit(jax.grad(loss), "3MB").lower(filters, x).compile()
    module = call.as_text()
    assert " while(" in module
    orders = {line.split("dim_labels=")[1].split(",")[0] for line in module.splitlines()
              if "dim_labels=" in line}  # fmt: skip
    assert orders == {"b01f_01io->b01f"}
