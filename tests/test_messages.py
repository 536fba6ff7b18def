"""Messages about large tensors under a limit: assertions and prints behave as without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

N, SHARE = 1200, 8


def kernel(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum(tf.square(x[:, None] - x[None]), -1))


def less(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    k = kernel(x)
    tf.debugging.assert_less(k, bound, message="too large")
    return tf.reduce_sum(k, 1)


def integers(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    """TensorFlow has no branch around assertions on integers."""
    k = tf.cast(100 * kernel(x), tf.int32)
    tf.debugging.assert_less(k, tf.cast(100 * bound, tf.int32), summarize=5)
    return tf.reduce_sum(k, 1)


def flags(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    k = kernel(x)
    tf.debugging.Assert(tf.reduce_all(k < bound), [k < bound, "some are not"])
    return tf.reduce_sum(k, 1)


def batch_of_columns(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    """[2, N, N, 1]: the last axis is shorter than an excerpt."""
    k = tf.stack([kernel(x), kernel(2 * x)])[..., None]
    tf.debugging.assert_less(k, bound)
    return tf.reduce_sum(k, [0, 2])


def few_columns(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    """Excerpts of rows: fewer columns than elements are shown."""
    d = tf.square(x[:, None] - x[None])
    tf.debugging.assert_less(d, 100 * bound)
    tf.debugging.assert_less(tf.transpose(d, [1, 0, 2]), 100 * bound - 90, summarize=7)
    return tf.reduce_sum(d, [1, 2])


def in_a_loop(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    total = tf.zeros([N], x.dtype)
    for i in tf.range(3):
        k = kernel(x) * tf.cast(i, x.dtype) / 2
        tf.debugging.assert_less(k, bound)
        total += tf.reduce_sum(k, 1)
    return total


def finite(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    k = tf.math.log(bound - kernel(x))
    tf.debugging.assert_all_finite(k, "a logarithm")
    return tf.reduce_sum(k, 1)


def numerics(x: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    k = tf.debugging.check_numerics(kernel(x) / tf.nn.relu(bound - 1), "a quotient")
    return tf.reduce_sum(k, 1)


CASES = (less, integers, flags, batch_of_columns, few_columns, in_a_loop, finite, numerics)


def _data() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    x = tf.constant(np.random.default_rng(0).standard_normal((N, 2)))
    return x, tf.constant(1.5, x.dtype), tf.constant(0.9, x.dtype)


def _optimized(function: Callable[..., Any], *arguments: tf.Tensor) -> Any:
    stock = tf.function(function)
    before = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak
    return stock, tf_exla.optimize(stock, before // SHARE)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_passes_and_fails_as_before(function: Callable[..., Any]) -> None:
    x, high, low = _data()
    stock, optimized = _optimized(function, x, high)
    np.testing.assert_allclose(optimized(x, high), stock(x, high), rtol=1e-9)
    said = []
    for called in (stock, optimized):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            called(x, low)
        said.append(_message(error.value.message))
    assert said[0] == said[1]


def _message(text: str) -> str:
    """Return the message itself, of which eager TensorFlow repeats some."""
    (line,) = {one for one in text.splitlines() if "assertion failed" in one or "Tensor had" in one}
    return line


def shown(x: tf.Tensor, bound: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    k = kernel(x)
    small = tf.stack([k, 2 * k])[..., None] < bound
    text = tf.strings.format("{} and {}", (k, small))
    return text, tf.reduce_sum(k, 1) + tf.reduce_sum(tf.cast(small, k.dtype))


def test_prints_the_same() -> None:
    x, high, _ = _data()
    stock, optimized = _optimized(shown, x, high)
    for want, got in zip(stock(x, high), optimized(x, high), strict=True):
        if want.dtype == tf.string:
            assert want == got
        else:
            np.testing.assert_allclose(want, got, rtol=1e-9)


def measure() -> list[int]:
    x, high, _ = _data()
    _, optimized = _optimized(less, x, high)
    report = optimized.report(x, high)
    return [int(tf_exla.measured_peak(optimized, x, high)), report.projected_peak, report.limit]


def test_peak() -> None:
    measured, projected, limit = run_fresh(measure)
    assert measured <= projected <= limit
