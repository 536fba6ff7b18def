"""A form of the program that holds the limit in tiny chunks gives way to a faster one."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_exla

N = 601
POINTS = np.random.default_rng(0).standard_normal((2, N, 2))


def independence(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A kernel independence criterion (HSIC) and its permutations."""
    k, other = (tf.exp(-tf.reduce_sum((z[:, None] - z) ** 2, -1)) for z in (x, y))
    centre = tf.eye(N, dtype=x.dtype) - 1 / N

    def permuted(i: tf.Tensor) -> tf.Tensor:
        order = tf.random.experimental.stateless_shuffle(tf.range(N), seed=[i, 7])
        rows = tf.gather(tf.gather(other, order), order, axis=1)
        return tf.reduce_sum((centre @ k @ centre) * rows)

    plain = tf.linalg.trace(k @ centre @ other @ centre)
    return plain, tf.map_fn(permuted, tf.range(5), fn_output_signature=x.dtype)


def test_more_memory_is_not_slower_by_much() -> None:
    x, y = map(tf.constant, POINTS)
    stock = tf.function(independence)
    needed = tf_exla.explain(stock, x, y, limit="10GB").projected_peak_before
    for part in (0.8, 0.5, 0.35):
        optimized = tf_exla.optimize(stock, int(part * needed), strict=True)
        steps = optimized.report(x, y).steps
        assert steps[-1].seconds < 3 * steps[0].seconds_before, part
        for made, want in zip(optimized(x, y), stock(x, y), strict=True):
            np.testing.assert_allclose(made, want, rtol=1e-9)
