"""Loops that may end early: their counters bound what their gradients keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

X = tf.constant(np.random.default_rng(0).random((500, 4)))
W = tf.Variable(np.ones(4))


def breaks(x: tf.Tensor) -> tf.Tensor:
    total = tf.constant(0.0, tf.float64)
    for i in tf.range(10):
        u = tf.reduce_sum(x[i] * W)
        if u > 3.0:
            break
        total += tf.reduce_sum(x * W) * u
    return total


def two_tests(x: tf.Tensor) -> tf.Tensor:
    total, i = tf.constant(0.0, tf.float64), tf.constant(0)
    while i < 10 and total < 1e9:
        total += tf.reduce_sum(tf.sin(x * W)) * tf.cast(i, tf.float64)
        i += 1
    return total


@pytest.mark.parametrize("program", [breaks, two_tests])
def test_gradients_of_a_persistent_tape(program: Callable[[tf.Tensor], tf.Tensor]) -> None:
    def both(x: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            value = program(x)
        return value, tape.gradient(value, W)

    stock = tf.function(both)
    optimized = tf_exla.optimize(stock, "100MB", strict=True)
    for one, other in zip(optimized(X), stock(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
