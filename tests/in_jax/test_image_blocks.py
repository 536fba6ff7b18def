"""Images in blocks of rows: convolutions, reductions of windows, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import Primitives, capture
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax.op_set import JaxOps
from tf_exla.frontends.numpy import evaluate
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.moves.images.blocks import in_blocks
from tf_exla.moves.images.cutting import Cut
from tf_exla.moves.images.growth import find_images
from tf_exla.moves.lowering import lower

X = Any
LAYOUTS = {"NHWC": ("NHWC", "HWIO", "NHWC"), "NCHW": ("NCHW", "OIHW", "NCHW")}


def normal(*shape: int, seed: int = 0) -> X:
    return np.random.default_rng(seed).normal(size=shape)


def convolve(x: X, w: X, layout: str = "NHWC", stride: int = 1, **how: Any) -> X:
    """Convolve with filters of [height, width, in, out]."""
    if layout == "NCHW":
        w = jnp.transpose(w, (3, 2, 0, 1))
    padding = how.pop("padding", "SAME")
    numbers = LAYOUTS[layout]
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=numbers, **how
    )


def pool(x: X, how: Any, start: float, size: int, stride: int, padding: str) -> X:
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, start, how, window, strides, padding)


W, V = normal(3, 3, 2, 4, seed=1), normal(2, 4, 4, 2, seed=2)
NETS: dict[str, Callable[[X, X, X], X]] = {
    "two layers": lambda x, w, v: convolve(jnp.tanh(convolve(x, w)), v),
    "strides": lambda x, w, v: convolve(jax.nn.relu(convolve(x, w, stride=2)), v, stride=3),
    "channels first": lambda x, w, v: convolve(
        jnp.tanh(convolve(jnp.moveaxis(x, 3, 1), w, "NCHW")), v, "NCHW", 2
    ),
    "dilated": lambda x, w, v: convolve(convolve(x, w, rhs_dilation=(3, 2)), v),
    "valid": lambda x, w, v: convolve(convolve(x, w, padding="VALID"), v, padding=[(0, 2), (1, 0)]),
    "cropped": lambda x, w, v: convolve(convolve(x, w), v, padding=[(-2, 1), (0, 1)]),
    "transposed": lambda x, w, v: convolve(
        lax.conv_transpose(convolve(x, w), v, (2, 3), "SAME"), w
    ),
    "groups": lambda x, w, v: convolve(convolve(x, w[:, :, :1], feature_group_count=2), v),
    "maxima": lambda x, w, v: pool(convolve(x, w), lax.max, -jnp.inf, 3, 2, "SAME"),
    "sums": lambda x, w, v: convolve(pool(convolve(x, w), lax.add, 0.0, 3, 2, "SAME"), v),
    "minima": lambda x, w, v: pool(convolve(x, w), lax.min, jnp.inf, 2, 2, "VALID"),
    "normalized": lambda x, w, v: convolve(
        (y := convolve(x, w)) / jnp.std(y, axis=(1, 2), keepdims=True), v
    ),
}


def gradients(net: Callable[[X, X, X], X]) -> Callable[[X, X, X], X]:
    return jax.grad(lambda x, w, v: jnp.mean(net(x, w, v) ** 2), (0, 1, 2))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("of", ["values", "gradients"])
@pytest.mark.parametrize("name", NETS)
@pytest.mark.each_value
def test_the_same_numbers(name: str, of: str, batch: int) -> None:
    function = gradients(NETS[name]) if of == "gradients" else NETS[name]
    with enable_x64():
        arrays = normal(batch, 31, 9, 2), W, V
        captured = capture(function, *map(jnp.asarray, arrays))
        wanted = jax.tree.leaves(function(*map(jnp.asarray, arrays)))
        ops = JaxOps()
        graph = lower(clean(captured.graph, ops), ops, 0)
        images = find_images(graph, ops, 0)
        assert sum(len(one.steps) for one in images) >= 2
        constants = [np.asarray(one) for one in captured.constants]
        for rows in (1, 2, 5):
            made = in_blocks(graph, ops, [Cut(one, min(rows, one.size)) for one in images])
            check_graph(made, graph)
            compare(evaluate(made, *arrays, *constants, kernels=Primitives()), wanted)


def compare(found: Sequence[X], wanted: Sequence[X]) -> None:
    for one, want in zip(found, wanted, strict=True):
        scale = max(float(np.max(np.abs(want))), 1)
        np.testing.assert_allclose(np.asarray(one) / scale, want / scale, 0, 1e-10)


def test_limit() -> None:
    """The gradient of a chain on one image runs in a small part of its memory."""
    with enable_x64():
        filters = [jnp.asarray(normal(3, 3, *s, seed=3)) / 5 for s in ((2, 8), (8, 8), (8, 1))]
        x = jnp.asarray(normal(1, 201, 30, 2))

        def loss(filters: X) -> X:
            y = x
            for one in filters:
                y = jnp.tanh(convolve(y, one))
            return jnp.mean(y**2)

        gradient = jax.grad(loss)
        with pytest.raises(MemoryLimitError) as caught:
            tf_exla.jax.optimize(gradient, 1)(filters)
        error = caught.value
        assert error.smallest_limit < error.projected_peak / 4
        wanted = gradient(filters)
        for limit in (error.smallest_limit, error.projected_peak // 2):
            compare(tf_exla.jax.optimize(gradient, limit)(filters), wanted)
