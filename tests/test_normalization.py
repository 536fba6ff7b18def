"""Quotients by sums stay quotients: numbers near the ends of their range do not leave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla import MemoryLimitError

RNG = np.random.default_rng(0)
KEYS = RNG.standard_normal((1000, 8)).astype("float32")
QUERIES = RNG.standard_normal((500, 8)).astype("float32")
QUERIES *= 84 / (QUERIES @ KEYS.T).max(1, keepdims=True)  # exp(84) is a hundredth of the largest
VALUES = RNG.uniform(0, 2000, (1000, 4)).astype("float32")
DATA = RNG.uniform(0, 1, (1000, 1)).astype("float32")
FAR = RNG.uniform(13.75, 13.85, (600, 1)).astype("float32")  # exp(-d / 2) below 1e-35
SMALL = (1e-3 * np.sin(6 * DATA)).astype("float32")

Arrays = tuple[np.ndarray, ...]


def softmax(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(q, k, transpose_b=True))
    return tf.matmul(e / tf.reduce_sum(e, 1, keepdims=True), v)


def reciprocals(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(q, k, transpose_b=True) - 2)
    return tf.matmul(e * (1 / tf.reduce_sum(e, 1, keepdims=True)), v)


def reciprocals_of_any(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(q, k, transpose_b=True) - 2)
    return tf.matmul(e * tf.math.reciprocal_no_nan(tf.reduce_sum(e, 1, keepdims=True)), v)


def logarithms(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(q, k, transpose_b=True) - 2)
    return tf.matmul(e * tf.exp(-tf.math.log(tf.reduce_sum(e, 1, keepdims=True))), v)


def expectation(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(q, k, transpose_b=True))
    return tf.reduce_sum(e / tf.reduce_sum(e, 1, keepdims=True) * v[:, 0], 1)


def of_all(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(q, k, transpose_b=True) - 6)
    return tf.matmul(-e / tf.reduce_sum(e), v)


def unit_rows(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    a = tf.exp(tf.matmul(q, k, transpose_b=True) / 2)
    return tf.matmul(a * tf.math.rsqrt(tf.reduce_sum(tf.square(a), 1, keepdims=True)), v * 1e21)


def smoother(x: tf.Tensor, data: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    e = tf.exp(-tf.square(x - tf.transpose(data)) / 2.0)
    return tf.matmul(e / tf.reduce_sum(e, 1, keepdims=True), y)


CASES: Mapping[Callable[..., tf.Tensor], Arrays] = {
    **dict.fromkeys(
        (softmax, reciprocals, reciprocals_of_any, logarithms, expectation, of_all, unit_rows),
        (QUERIES, KEYS, VALUES),
    ),
    smoother: (FAR, DATA, SMALL),
}


@pytest.mark.each_value
@pytest.mark.parametrize("rewrites", [None, False])
@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_quotients_stay_in_range(program: Callable[..., tf.Tensor], rewrites: bool | None) -> None:
    arguments = CASES[program]
    function = tf.function(program)
    want = function(*arguments).numpy()
    assert np.isfinite(want).all()
    assert want.any()
    with pytest.raises(MemoryLimitError) as error:
        tf_exla.optimize(function, 1, strict=True, rewrites=rewrites)(*arguments)
    smallest = error.value.smallest_limit
    assert smallest is not None
    for limit in (smallest, 2 * smallest, 3 * smallest, 10**9):
        got = tf_exla.optimize(function, limit, strict=True, rewrites=rewrites)(*arguments)
        # The kernel that TensorFlow takes for 1 / x is wrong by 2e-4 here.
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize(
    "rounded",
    [
        tf.floor,
        tf.round,
        lambda x: tf.cast(x, tf.int32),
        lambda x: tf.cast(tf.clip_by_value(tf.transpose(x) + 1, 0, 40), tf.uint8),
        lambda x: tf.reshape(x, [-1]) >= 29.0,
    ],
)
def test_scales_before_rounding_are_not_joined(rounded: Callable[..., tf.Tensor]) -> None:
    """On a grid, the last bit decides: 0.29 / 0.1 / 0.1 is not 0.29 / (0.1 * 0.1)."""

    @tf.function
    def function(x: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        return rounded(x / step / step)

    grid = np.arange(1_000_000).reshape(1000, 1000) % 100 / 200
    want = function(grid, np.array(0.1))
    got = tf_exla.optimize(function, 10**9, strict=True)(grid, np.array(0.1))
    np.testing.assert_array_equal(got, want)
