"""Rows that a mask leaves nothing of, where sums over them are streamed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla import MemoryLimitError

RNG = np.random.default_rng(0)
Q, K = (tf.constant(RNG.normal(size=(n, 8)), tf.float32) for n in (700, 1100))
V = tf.constant(RNG.normal(size=(1100, 2)), tf.float32)
KEEP = tf.constant(np.arange(700) % 100 != 5)


def mask() -> tf.Tensor:
    return KEEP[:, None] & (tf.abs(Q[:, :1] - K[:, 0]) < 3.0)


def safe_softmax(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    s = tf.where(mask(), q @ tf.transpose(k), -np.inf)
    e = tf.where(mask(), tf.exp(s - tf.reduce_max(s, 1, keepdims=True)), 0.0)
    return tf.math.divide_no_nan(e @ v, tf.reduce_sum(e, 1, keepdims=True))


def masked_quotient(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.where(mask(), tf.exp(q @ tf.transpose(k)), 0.0)
    return tf.where(mask(), e / tf.reduce_sum(e, 1, keepdims=True), 0.0) @ v


@pytest.mark.parametrize("program", [safe_softmax, masked_quotient])
def test_rows_without_anything_are_zero(program: Callable[..., tf.Tensor]) -> None:
    function = tf.function(program)
    want = function(Q, K, V)
    with pytest.raises(MemoryLimitError) as error:
        tf_exla.explain(function, Q, K, V, limit=1)
    for share in (1.0, 1.5, 3.0):
        optimized = tf_exla.optimize(function, int(share * error.value.smallest_limit), strict=True)
        np.testing.assert_allclose(optimized(Q, K, V), want, rtol=1e-4, atol=1e-5)
