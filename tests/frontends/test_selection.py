"""Medians and percentiles of all elements: TensorFlow's numbers, found without sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tf_exla
from tf_exla.frontends.tf.restore import radix

N, M = 401, 353
READ: dict[str, Callable[[tf.Tensor], Any]] = {
    "median": lambda d: tfp.stats.percentile(d, 50.0),
    "midpoint": lambda d: tfp.stats.percentile(d, 50.0, interpolation="midpoint"),
    "percentiles": lambda d: tfp.stats.percentile(d, [5.0, 25.0, 75.0, 100.0]),
    "interpolated": lambda d: tfp.stats.percentile(d, [10.0, 90.0], interpolation="linear"),
    "quantiles": lambda d: tfp.stats.quantiles(d, 4),
    "sorted": lambda d: tf.sort(tf.reshape(d, [-1]))[N : N + 4],
    "falling": lambda d: tf.sort(tf.reshape(d, [-1]), direction="DESCENDING")[-N],
    "top half": lambda d: tf.math.top_k(tf.reshape(d, [-1]), tf.size(d) // 2).values[-1],
    "picked": lambda d: tf.gather(tf.sort(tf.reshape(d, [-1])), [3, 1, 3]),
}


def inputs(dtype: str) -> list[tf.Tensor]:
    rng = np.random.default_rng(0)
    return [tf.constant(rng.normal(size=(rows, 3)), dtype) for rows in (N, M)]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", READ)
def test_numbers(name: str, dtype: str) -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        return READ[name](tf.reduce_sum(tf.square(x[:, None] - y), -1))

    arguments = inputs(dtype)
    whole = N * M * arguments[0].dtype.size
    expected = function(*arguments).numpy()
    for limit in ((1 << 20) + whole * 3 // 4, 10**9):
        optimized = tf_exla.optimize(function, limit, strict=True)
        got = optimized(*arguments).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-12 if dtype == "float64" else 1e-5)
        report = optimized.report(*arguments)
        assert "order-statistics" in {one.name for one in report.rewrites}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_bit_differs(dtype: str) -> None:
    """Elements of arguments are not computed, so they are those of the sorted tensor."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=100_003) * 10.0 ** rng.integers(-30, 30, 100_003)
    x[::11], x[5], x[6], x[1::13] = 0.25, np.inf, -np.inf, 0.0
    argument = tf.constant(x, dtype)
    places = [0, 1, 7, 50_001, 99_999, 100_001, 100_002]
    function = tf.function(lambda x: tf.gather(tf.sort(x), places))
    optimized = tf_exla.optimize(function, 10**9, strict=True)
    np.testing.assert_array_equal(optimized(argument), function(argument))
    assert optimized.report(argument).rewrites


def test_counts_of_a_gpu_with_deterministic_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radix, "device", lambda: "GPU")
    monkeypatch.setattr(radix.config, "is_op_determinism_enabled", lambda: True)
    test_numbers("sorted", "float64")


def test_nan_is_the_percentile() -> None:
    x, y = inputs("float64")
    x = tf.tensor_scatter_nd_update(x, [[3, 1]], [np.nan])

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        return READ["median"](tf.reduce_sum(tf.square(x[:, None] - y), -1))

    assert np.isnan(tf_exla.optimize(function, "2MB", strict=True)(x, y))


def test_a_gradient_needs_the_places() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = READ["median"](tf.reduce_sum(tf.square(x[:, None] - y), -1))
        return value, tape.gradient(value, x)

    arguments = inputs("float64")
    optimized = tf_exla.optimize(function, 10**9, strict=True)
    for got, want in zip(optimized(*arguments), function(*arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
