"""Programs without an axis to split: the limit holds, since tensors are computed again."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import normal, with_gradients

import tf_exla


def normalized(x: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)


def residual_network() -> tuple[Any, tuple[Any, ...]]:
    """Each batch normalization needs all of the batch, so no loop over the batch spans two."""

    def loss(x: tf.Tensor, *filters: tf.Tensor) -> tf.Tensor:
        for first, second in zip(filters[::2], filters[1::2], strict=True):
            y = tf.nn.relu(normalized(tf.nn.conv2d(x, first, 1, "SAME")))
            x = tf.nn.relu(x + normalized(tf.nn.conv2d(y, second, 1, "SAME")))
        return tf.reduce_mean(tf.square(tf.reduce_mean(x, [1, 2])))

    filters = [normal(3, 3, 8, 8, seed=k, dtype="float32") / 8 for k in range(12)]
    return with_gradients(loss), (normal(6, 61, 37, 8, dtype="float32"), *filters)


def wave() -> tuple[Any, tuple[Any, ...]]:
    """A wave on a grid, and the gradients of its start and of its speed at each point."""

    def loss(u: tf.Tensor, speed: tf.Tensor) -> tf.Tensor:
        v = tf.zeros_like(u)
        for _ in range(40):
            sides = [tf.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1)]
            v += 0.1 * speed * (tf.add_n(sides) - 4 * u)
            u += 0.1 * v
        return tf.reduce_sum(u * u)

    return with_gradients(loss), (normal(211, 173), normal(211, 173, seed=1))


def steps_of_a_graph() -> tuple[Any, tuple[Any, ...]]:
    """Messages on the edges of a graph: any node may be a neighbour of any other."""
    edges = tf.random.stateless_uniform([2, 20_000], [1, 2], 0, 3001, tf.int32)

    def loss(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        for one in weights:
            sums = tf.math.unsorted_segment_sum(tf.gather(x, edges[0]), edges[1], 3001)
            x = tf.nn.elu(sums @ one / 7 + x)
        return tf.reduce_mean(x**2)

    weights = [normal(16, 16, seed=k) / 4 for k in range(10)]
    return with_gradients(loss), (normal(3001, 16), *weights)


def marked_blocks() -> tuple[Any, tuple[Any, ...]]:
    """Blocks of attention, each of which the user has marked to be computed again."""

    def block(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return x + tf.nn.softmax(tf.matmul(x @ w, x, transpose_b=True)) @ tf.tanh(x)

    def loss(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        for one in weights:
            x = tf.recompute_grad(block)(x, one)
        return tf.reduce_mean(x**2)

    return with_gradients(loss), (normal(6, 251, 16), *(normal(16, 16, seed=k) for k in range(4)))


PROGRAMS = {one.__name__: one for one in (residual_network, wave, steps_of_a_graph, marked_blocks)}


def before(stock: Any, *args: Any) -> int:
    return tf_exla.explain(stock, *args, limit="10GB").projected_peak_before


def measure(name: str, part: float) -> dict[str, Any]:
    function, args = PROGRAMS[name]()
    stock = tf.function(function)
    limit = int(part * before(stock, *args))
    optimized = tf_exla.optimize(function, limit, strict=True)
    report = optimized.report(*args)
    peak = tf_exla.measured_peak(optimized, *args)
    error = 0.0
    for made, want in zip(
        *(tf.nest.flatten(one(*args)) for one in (optimized, stock)), strict=True
    ):
        scale = tf.reduce_max(tf.abs(want)) + 1e-30
        error = max(error, float(tf.reduce_max(tf.abs(made - want)) / scale))
    return {
        "limit": limit,
        "projected": report.projected_peak,
        "measured": peak.resident + peak.working_set,
        "error": error,
        "forms": [step.move for step in report.steps],
    }


@pytest.mark.parametrize(
    ("name", "part"),
    [("residual_network", 0.6), ("wave", 0.45), ("steps_of_a_graph", 0.8)],
)
def test_limit_and_numbers(name: str, part: float) -> None:
    found = run_fresh(measure, name, part)
    assert "rematerialized" in found["forms"]
    assert found["measured"] <= found["projected"] <= found["limit"]
    assert found["error"] <= (1e-4 if name == "residual_network" else 1e-10)


@pytest.mark.parametrize(("part", "loops"), [(10.0, False), (1.02, False), (0.5, True)])
def test_marked_blocks_are_computed_again_where_it_is_needed(part: float, loops: bool) -> None:
    """With room nothing is; then what is marked is; below that, one loop over the batch is best."""
    function, args = marked_blocks()
    stock = tf.function(function)
    optimized = tf_exla.optimize(
        function, int(part * before(stock, *args)), strict=True, rewrites={"in-cache": False}
    )
    report = optimized.report(*args)
    assert bool(report.loops) == loops
    assert any(step.move == "equal results apart" for step in report.steps) == (part == 1.02)
    for made, want in zip(
        *(tf.nest.flatten(one(*args)) for one in (optimized, stock)), strict=True
    ):
        tf.debugging.assert_near(made, want, rtol=1e-10, atol=1e-10)
