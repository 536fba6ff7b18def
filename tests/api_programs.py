"""Programs that use TensorFlow's transformations: maps, Jacobians, forward mode, operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from programs import Case, Made, normal, rbf, square_distance


def pairs() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    return normal(1201, 3), normal(1103, 3, seed=1), normal(1103, 1, seed=2)


def scan() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        def step(total: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
            return total + tf.reduce_sum(tf.matmul(rbf(x, y, scale), v))

        scales = tf.constant([0.5, 1.0, 2.0], x.dtype)
        return tf.scan(step, scales, tf.zeros([], x.dtype)), tf.map_fn(
            lambda scale: tf.reduce_max(tf.matmul(rbf(x, y, scale), v)), scales
        )

    return function, pairs()


def vectorized_map() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        def row(one: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.exp(-tf.reduce_sum(tf.square(one - y), -1)) * v[:, 0])

        return tf.vectorized_map(row, x)

    return function, pairs()


def jacobians() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            rows = tf.matmul(rbf(x, y), y[:, :2])
            columns = tf.reduce_sum(rows, 0)
        return tape.batch_jacobian(rows, x), tape.jacobian(columns, x)

    return function, (normal(200, 3), normal(2000, 3, seed=1))


def second_order() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = tf.reduce_sum(tf.matmul(rbf(x, y), v))
            penalty = tf.reduce_sum(tf.square(inner.gradient(value, x)))
        return penalty, outer.gradient(penalty, x)

    return function, pairs()


def forward_mode() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as tangents:
            value = tf.matmul(rbf(x, y), v)
        return value, tangents.jvp(value)

    return function, pairs()


def custom_gradient() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
        @tf.custom_gradient
        def root(k: tf.Tensor) -> Any:
            return tf.sqrt(k + 1e-6), lambda upstream: upstream * tf.clip_by_value(k, 0.1, 0.9)

        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.recompute_grad(lambda x: tf.reduce_sum(tf.matmul(root(rbf(x, y)), v)))(x)
        return value, tape.gradient(value, x)

    return function, pairs()


def operator() -> Made:
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = tf.linalg.LinearOperatorFullMatrix(rbf(x, x), is_self_adjoint=True)
        return k.matvec(v), k.diag_part(), k.trace()

    return function, (normal(1201, 3), normal(1201, seed=1))


def mixture() -> Made:
    def function(x: tf.Tensor, centres: tf.Tensor) -> Any:
        logs = -0.5 * square_distance(x, centres)
        shares = tf.nn.softmax(logs)
        means = tf.matmul(shares, x, transpose_a=True) / tf.reduce_sum(shares, 0)[:, None]
        moments = tf.einsum("nk,ni,nj->kij", shares, x, x)
        return tf.reduce_mean(tf.reduce_logsumexp(logs, 1)), means, moments

    return function, (normal(20_011, 8), normal(60, 8, seed=1))


def statistics() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = square_distance(x, y)
        least = tf.math.top_k(d, 7).values[:, -1:]
        kept = tf.reduce_sum(tf.where(d >= least, d, 0), 0)
        bins = tf.histogram_fixed_width(d, tf.constant([0.0, 20.0], d.dtype), nbins=16)
        return kept, bins, tf.sort(d, 1)[:, 550], tf.math.reduce_std(d, 1)

    return function, pairs()[:2]


def phases() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        angles = tf.matmul(x, y, transpose_b=True)
        waves = tf.exp(tf.complex(tf.zeros_like(angles), angles))
        return tf.math.real(tf.reduce_sum(waves, 1)), tf.abs(tf.reduce_sum(waves, 0))

    return function, pairs()[:2]


API_CASES: Sequence[Case] = (
    Case("tf.scan and tf.map_fn", scan, 5),
    Case("tf.vectorized_map", vectorized_map, 10),
    Case("Jacobians", jacobians, 5),
    Case("gradients of gradients", second_order, 10),
    Case("forward mode", forward_mode, 8),
    Case("gradients by hand, recomputed", custom_gradient, 8),
    Case("tf.linalg.LinearOperator", operator, 5),
    Case("mixture of Gaussians", mixture, 10),
    Case("statistics of distances", statistics, 5),
    Case("phases", phases, 10),
)
