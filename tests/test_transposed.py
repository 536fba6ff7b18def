"""Sums of a matrix that is not symmetric and its transpose: no matrix has to exist whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from programs import normal, square_distance, with_gradients
from programs_check import difference

import tf_exla

N = 701


def scores(x: tf.Tensor) -> tf.Tensor:
    """Return a matrix that is not symmetric."""
    return tf.matmul(x, tf.cumsum(x, 1), transpose_b=True)


def plain(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    a = tf.tanh(scores(x))
    return tf.matmul(a + tf.transpose(a), v)


def affinities(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    p = tf.nn.softmax(-square_distance(x, x) * tf.reduce_sum(tf.square(v), 1)[:, None])
    return (p + tf.transpose(p)) / (2 * N)


def t_sne(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    p = affinities(x, v)
    q = 1 / (1 + square_distance(v, v))
    q = tf.linalg.set_diag(q, tf.zeros_like(v[:, 0]))
    q /= tf.reduce_sum(q)
    least = tf.constant(1e-12, x.dtype)
    return tf.reduce_sum(p * (tf.math.log(p + least) - tf.math.log(q + least)))


def t_sne_gradient(x: tf.Tensor, v: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(v)
        loss = t_sne(x, v)
    return loss, tape.gradient(loss, v)


def cosines(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    a = tf.exp(tf.math.l2_normalize(scores(x), 1))
    return tf.linalg.matvec(a + tf.linalg.matrix_transpose(a), v[:, 0])


def laplacian(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """A symmetric matrix, scaled by its degrees."""
    a = tf.exp(-tf.abs(scores(x)))
    s = a + tf.transpose(a)
    d = tf.math.rsqrt(tf.reduce_sum(s, 1))
    return tf.matmul(d[:, None] * s * d[None, :], v)


def of_a_batch(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    a = tf.sigmoid(tf.stack([scores(x), 2 * scores(x)]))
    return tf.matmul(tf.maximum(a, tf.transpose(a, [0, 2, 1])) / N, v[None])


PROGRAMS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "plain, gradients": with_gradients(plain),
    "cosines, gradients": with_gradients(cosines),
    "laplacian": laplacian,
    "laplacian, gradients": with_gradients(laplacian),
    "maxima of a batch": of_a_batch,
    "t-SNE": t_sne,
    "t-SNE, gradient": t_sne_gradient,
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_symmetrised(name: str) -> None:
    function, arguments = PROGRAMS[name], (0.3 * normal(N, 5), normal(N, 2, seed=1))
    with pytest.raises(tf_exla.MemoryLimitError) as caught:
        tf_exla.explain(function, *arguments, limit=1)
    smallest = caught.value.smallest_limit
    matrix = 8 * N * N
    assert smallest < matrix
    expected = tf.function(function, autograph=False)(*arguments)
    for limit in (smallest, smallest + matrix // 2):
        optimized = tf_exla.optimize(function, limit)
        assert optimized.report(*arguments).projected_peak <= limit
        assert difference(expected, optimized(*arguments), 1e-7) <= 1
