"""Results of constants are computed once and kept, where that saves time and there is room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

ROWS, COLUMNS = 1009, 257
POINTS = np.random.default_rng(0).normal(size=(ROWS, 3)).astype("float32")
TARGETS = np.random.default_rng(1).normal(size=(ROWS, 1)).astype("float32")
V = tf.constant(0.7)


def drawn(v: tf.Tensor) -> tf.Tensor:
    noise = tf.random.stateless_normal([ROWS, COLUMNS], seed=[3, 4])
    return tf.reduce_mean(tf.abs(noise) * v, 0)


def solved(v: tf.Tensor) -> tf.Tensor:
    x = tf.constant(POINTS[:300])
    kernel = tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))
    inverse = tf.linalg.inv(kernel + 0.1 * tf.eye(300))
    return v * tf.linalg.matvec(inverse, TARGETS[:300, 0]) + v


def integers(v: tf.Tensor) -> tf.Tensor:
    order = tf.argsort(tf.random.stateless_uniform([200_003], [1, 2], 0, 1000, tf.int32))
    return tf.reduce_sum(tf.cast(order[::2] > order[1::2][0], tf.float32)) * v


def complex_numbers(v: tf.Tensor) -> tf.Tensor:
    grid = tf.signal.fft(tf.complex(POINTS[:, 0] * tf.ones([500, 1]), 1.0))
    return tf.reduce_sum(tf.abs(grid[:, :7])) * v


def all_constant(v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    noise = tf.random.stateless_normal([ROWS, COLUMNS], seed=[3, 4])
    return tf.linalg.matmul(noise, noise, transpose_a=True), noise + v


def folded(optimized: Any, *args: Any) -> list[str]:
    """Return the names of the inputs that replace results of constants."""
    program = optimized._settled(args, {})
    names = [tensor.name for tensor in program.plan.graph.inputs]
    return [name for name in names if name.endswith("_folded")]


@pytest.mark.parametrize("fn", [drawn, solved, integers, complex_numbers, all_constant])
def test_kept_results_have_the_same_numbers(fn: Callable[..., Any]) -> None:
    optimized = tf_exla.optimize(fn, "1GB", strict=True)
    want = tf.nest.flatten(tf.function(fn)(V))
    for _ in range(2):
        for one, other in zip(tf.nest.flatten(optimized(V)), want, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)
    assert folded(optimized, V)


def test_a_call_does_not_compute_them() -> None:
    optimized = tf_exla.optimize(drawn, "1GB", strict=True)
    optimized(V)
    ops = {node.op for node in optimized._settled((V,), {}).plan.graph.nodes}
    assert folded(optimized, V)
    assert not any("random" in op.lower() for op in ops)


def test_without_room_they_are_computed_in_chunks() -> None:
    optimized = tf_exla.optimize(drawn, 1_300_000, strict=True)
    np.testing.assert_allclose(optimized(V), tf.function(drawn)(V), rtol=1e-5)
    assert not folded(optimized, V)
    assert optimized.report(V).projected_peak <= 1_300_000


def test_little_work_is_not_kept() -> None:
    def masked(x: tf.Tensor) -> tf.Tensor:
        row = tf.constant(POINTS[:, 0])
        return tf.reduce_sum(tf.exp(x) * tf.where(row > 0, row, 0.0))

    x = tf.ones([ROWS, ROWS])
    optimized = tf_exla.optimize(masked, "1GB", strict=True)
    np.testing.assert_allclose(optimized(x), tf.function(masked)(x), rtol=1e-5)
    assert not folded(optimized, x)


def test_a_state_is_no_constant() -> None:
    def fn(v: tf.Tensor) -> tf.Tensor:
        return tf.random.normal([ROWS, COLUMNS], seed=5) * v

    optimized = tf_exla.optimize(fn, "1GB", strict=True)
    assert np.all(optimized(V) != optimized(V))


def test_gradients_inside_and_outside() -> None:
    def with_gradient(v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(v)
            value = tf.reduce_sum(tf.exp(drawn(v)))
        return value, tape.gradient(value, v)

    value, want = tf.function(with_gradient)(V)
    optimized = tf_exla.optimize(with_gradient, "1GB", strict=True)
    np.testing.assert_allclose(optimized(V), (value, want), rtol=1e-5)
    assert folded(optimized, V)
    optimized = tf_exla.optimize(drawn, "1GB", strict=True)
    with tf.GradientTape() as tape:
        tape.watch(V)
        value = tf.reduce_sum(tf.exp(optimized(V)))
    np.testing.assert_allclose(tape.gradient(value, V), want, rtol=1e-5)


def test_called_from_a_graph_and_saved(tmp_path: Path) -> None:
    optimized = tf_exla.optimize(drawn, "1GB", strict=True)
    outer = tf.function(lambda v: optimized(v) + 1.0)
    want = tf.function(drawn)(V)
    np.testing.assert_allclose(outer(V), want + 1.0, rtol=1e-5)

    module = tf.Module()
    module.fn = tf.function(lambda v: optimized(v), input_signature=[tf.TensorSpec([], "float32")])
    tf.saved_model.save(module, str(tmp_path))
    np.testing.assert_allclose(tf.saved_model.load(str(tmp_path)).fn(V), want, rtol=1e-5)


def test_in_the_body_of_a_loop_over_a_dataset() -> None:
    data = tf.data.Dataset.range(5).map(lambda k: tf.cast(k, tf.float32))

    def steps(v: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([COLUMNS])
        for k in data:
            total += drawn(v + k)
        return total

    optimized = tf_exla.optimize(steps, "1GB", strict=True)
    np.testing.assert_allclose(optimized(V), tf.function(steps)(V), rtol=1e-5)


def test_of_two_optimized_functions_each_keeps_its_own() -> None:
    one = tf_exla.optimize(drawn, "1GB", strict=True)
    two = tf_exla.optimize(solved, "1GB", strict=True)

    @tf.function
    def both(v: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(one(v)) + tf.reduce_sum(two(v))

    want = tf.reduce_sum(tf.function(drawn)(V)) + tf.reduce_sum(tf.function(solved)(V))
    np.testing.assert_allclose(both(V), want, rtol=1e-4)


def test_called_from_a_graph_of_tensorflow_1() -> None:
    optimized = tf_exla.optimize(drawn, "1GB", strict=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        v = tf.compat.v1.placeholder("float32", [])
        made = session.run(optimized(v), {v: float(V)})
    np.testing.assert_allclose(made, tf.function(drawn)(V), rtol=1e-5)
    assert folded(optimized, V)
