"""Functions that create variables on their first call, from the arguments of that call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1201, 3))
LIMIT = 4_000_000


class Centred(tf.Module):  # type: ignore[misc]
    """It centres by the mean of the first batch, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.mean: Any = None
        self.calls: Any = None

    @tf.function
    def __call__(self, x: Any) -> Any:
        if self.mean is None:
            self.mean = tf.Variable(tf.reduce_mean(x, 0))
            self.calls = tf.Variable(0)
        self.calls.assign_add(1)
        squares = tf.reduce_sum((x[:, None] - x[None] - self.mean) ** 2, -1)
        return tf.reduce_sum(tf.exp(-squares), 1)


def inputs() -> list[Any]:
    return [tf.constant(X), tf.constant(X + 1.0), tf.constant(X[:700]), tf.constant(X)]


@pytest.mark.parametrize("how", ["limit", "optimize", "optimize, strict"])
def test_the_first_call_runs_as_it_was(how: str) -> None:
    stock, ours = Centred(), Centred()
    expected = [stock(x).numpy() for x in inputs()]
    if how == "limit":
        with tf_exla.limit(LIMIT), pytest.warns(tf_exla.NotOptimizedWarning, match="first call"):
            found = [ours(x).numpy() for x in inputs()]
    else:
        optimized = tf_exla.optimize(ours.__call__, LIMIT, strict="strict" in how)
        with pytest.warns(tf_exla.NotOptimizedWarning, match="first call"):
            found = [optimized(x).numpy() for x in inputs()]
        reports = optimized.reports()
        assert reports
        assert all(report.projected_peak <= LIMIT for report in reports)
        assert any(report.projected_peak_before > LIMIT for report in reports)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(ours.mean, stock.mean)
    assert int(ours.calls) == int(stock.calls) == len(inputs())


def test_a_function_and_a_gradient_of_its_first_call() -> None:
    def make() -> Any:
        made: list[Any] = []

        @tf.function
        def scaled(x: Any) -> Any:
            if not made:
                made.append(tf.Variable(tf.reduce_max(tf.abs(x))))
            return tf.reduce_sum(tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1) / made[0]))

        return scaled

    def gradient(function: Any) -> Any:
        x = tf.constant(X[:300])
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x)

    stock, ours = make(), tf_exla.optimize(make(), LIMIT)
    with pytest.warns(tf_exla.NotOptimizedWarning, match="first call"):
        first = gradient(ours)
    np.testing.assert_allclose(first, gradient(stock), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient(ours), gradient(stock), rtol=1e-9, atol=1e-12)
