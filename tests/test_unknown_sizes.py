"""Programs with unknown sizes: no pass fails on them, even if it cannot change them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from programs import rbf, with_gradients

import tf_exla
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.pipeline.optimize import optimize_graph


def sparse_gp(x: tf.Tensor, z: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    chol = tf.linalg.cholesky(rbf(z, z) + tf.eye(7, dtype=x.dtype))
    a = tf.linalg.triangular_solve(chol, rbf(z, x))
    return tf.reduce_sum(tf.square(tf.matmul(a, q, transpose_a=True) - x[:, :1]))


def network(x: tf.Tensor, w: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.tanh(x @ w) @ v))


def attention(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)


def scaled(x: tf.Tensor, d: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.linalg.trace(tf.linalg.diag(d) @ (x @ v)) + tf.reduce_sum(2.0 * (x @ v) * d)


def of(*shapes: tuple[int | None, ...]) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec(shape, tf.float64) for shape in shapes)


@pytest.mark.parametrize("limit", [10**12, 1])
@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (with_gradients(network), of((None, 3), (3, 5), (5, 2))),
        (with_gradients(network), of((None, None), (None, 5), (5, None))),
        (with_gradients(sparse_gp), of((None, 2), (7, 2), (7, 1))),
        (with_gradients(attention), of((2, 3, None, 4), (2, 1, None, 4), (2, 1, None, 4))),
        (with_gradients(scaled), of((5, None), (5,), (None, 5))),
        (scaled, of((None, None), (None,), (None, None))),
    ],
)
def test_no_pass_breaks(
    function: Callable[..., Any], specs: tuple[tf.TensorSpec, ...], limit: int
) -> None:
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    with contextlib.suppress(MemoryLimitError):
        optimize_graph(capture(concrete).graph, OPS, limit=limit)


def solved(y: tf.Tensor) -> tf.Tensor:
    """Rows whose number TensorFlow does not know while tracing; it follows from the inputs."""
    rows = tf.math.segment_sum(y, tf.minimum(tf.range(301), 63))
    gram = tf.matmul(rows, rows, transpose_b=True) + tf.eye(tf.shape(rows)[0], dtype=y.dtype)
    return tf.reduce_sum(tf.linalg.lstsq(gram, rows))


def branched(y: tf.Tensor) -> tf.Tensor:
    rows = tf.math.segment_sum(y, tf.minimum(tf.range(301), 63))
    wide = tf.greater(tf.shape(rows)[1], tf.shape(rows)[0])
    return tf.reduce_sum(tf.cond(wide, lambda: rows, lambda: tf.tanh(rows @ tf.transpose(rows))))


@pytest.mark.parametrize("function", [solved, branched])
def test_gradients_of_a_choice_that_is_known_have_known_sizes(
    function: Callable[[tf.Tensor], tf.Tensor],
) -> None:
    """A branch wraps tensors for its gradient in optionals, whose sizes are unknown."""
    y = tf.constant(np.random.default_rng(0).normal(size=(301, 5)))
    stock = tf.function(with_gradients(function))
    concrete = stock.get_concrete_function(y)
    graph = capture(concrete).graph
    assert not [node.name for node in graph.nodes if not all(t.is_static for t in node.outputs)]
    for a, b in zip(
        tf.nest.flatten(tf_exla.optimize(stock, "50MB", strict=True)(y)),
        tf.nest.flatten(stock(y)),
        strict=True,
    ):
        tf.debugging.assert_near(a, b, rtol=1e-6)  # normal equations square the condition


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("k", [-1, 1, 2])
def test_diagonals_of_unknown_length_beside_the_main_one(masked: bool, k: int) -> None:
    # TensorFlow 2.21 infers the shape (|k| - 1, |k| - 1), with which its own graph may fail.
    def sums(x: tf.Tensor) -> list[tf.Tensor]:
        d = tf.boolean_mask(x, x > -9.0) if masked else x
        matrix = tf.exp(tf.linalg.diag(d, k=k))
        return [tf.reduce_sum(matrix, 0), tf.reduce_max(tf.transpose(matrix), 1)]

    function = tf.function(
        sums, input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False
    )
    x = tf.constant(np.random.default_rng(0).standard_normal(997), tf.float32)
    whole = 4 * (997 + abs(k)) ** 2
    optimized = tf_exla.optimize(function, 100 * whole, strict=True)
    for want, got in zip(sums(x), optimized(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert optimized.report(x).projected_peak >= whole
    limited = tf_exla.optimize(function, whole // 2, strict=True)
    for want, got in zip(sums(x), limited(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert limited.report(x).projected_peak <= whole // 2
