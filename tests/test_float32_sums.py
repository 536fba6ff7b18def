"""Sums of float32 over many chunks are about as close to the sum in float64 as the stock's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=1501).astype("float32"), RNG.normal(size=1201).astype("float32")


def around_ten_thousand(x: Any, z: Any) -> Any:
    """The variance is the difference from a mean that is large in comparison."""
    return tf.nn.moments(1e4 + x[:, None] * z, [0, 1])


def columns(x: Any, z: Any) -> Any:
    return tf.reduce_mean(tf.exp(x[:, None] * z[:500]), 0)


def losses_in_a_loop(x: Any, z: Any) -> Any:
    step = lambda total, shift: total + tf.reduce_mean(tf.tanh(x[:, None] * z - shift))  # noqa: E731
    return tf.scan(step, tf.constant([0.1, 0.2, 0.3], x.dtype), tf.zeros([], x.dtype))[-1]


def with_gradient(x: Any, z: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.sqrt(1.0 + (x[:, None] * z) ** 2))
    return loss, tape.gradient(loss, x)


def gram(x: Any, z: Any) -> Any:
    """The result is larger than sums that are accumulated in float64."""
    k = tf.exp(-0.5 * (tf.repeat(x, 40)[:, None] - z[:300]) ** 2)
    return tf.matmul(k, k, transpose_a=True)


@pytest.mark.parametrize("factor", [1.0, 1.05, 1.3])
@pytest.mark.parametrize(
    "function", [around_ten_thousand, columns, losses_in_a_loop, with_gradient, gram]
)
def test_sums_are_as_close_as_those_of_stock(function: Callable[..., Any], factor: float) -> None:
    stock = tf.function(function, autograph=False)
    arguments = tf.constant(X), tf.constant(Z)
    true = tf.nest.flatten(function(*(tf.cast(one, tf.float64) for one in arguments)))
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(stock, *arguments, limit=1)
    limit = int(factor * info.value.smallest_limit)
    optimized = tf_exla.optimize(stock, limit, strict=True)
    outputs = (tf.nest.flatten(one(*arguments)) for one in (stock, optimized))
    for expected, found, exact in zip(*outputs, true, strict=True):
        size = np.max(np.abs(exact))
        error, usual = (np.max(np.abs(one - exact.numpy())) / size for one in (found, expected))
        assert error <= 2 * usual + 2e-7
