"""Gradients of control flow with side effects: effects happen once, and results are stock's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import normal, rbf
from replayed_programs import PROGRAMS, drawn, repeat
from samples import but

import tf_exla

SELDOM = ("factor_changes", "loop_in_branch", "nested", "python_loop")
ROWS = np.array([[1.0, 2.0], [3.0, 0.5], [0.2, 0.1]])


def around(function: Callable[..., Any], order: int, v: Any, c: Any, x: Any) -> list[Any]:
    """Return the values, and the gradients of their sum with respect to each source."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        if order == 1:
            made = [function(x)]
        else:
            made = [g for g in around(function, order - 1, v, c, x)[1:] if g is not None]
        total = tf.add_n([tf.reduce_sum(tf.cast(one, tf.float64)) for one in made])
    return [made[0], *tape.gradient(total, [x, v, c])]


def outcome(name: str, way: str, order: int) -> list[Any]:
    v = tf.Variable([1.5, 0.5], dtype=tf.float64)
    c = tf.Variable([0.25, 0.75], dtype=tf.float64)
    function = tf.function(lambda x: PROGRAMS[name](v, c, x), autograph=False)
    if way != "stock":
        function = tf_exla.optimize(function, "1GB")
    run: Callable[..., Any] = lambda x: around(function, order, v, c, x)  # noqa: E731
    if way == "inside":
        run = tf.function(run, autograph=False)
    return [*run(tf.constant(ROWS)), v, c]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", but(SELDOM, PROGRAMS))
def test_gradients(name: str) -> None:
    expected = outcome(name, "stock", 1)
    for way in ("eager", "inside"):
        for got, want in zip(outcome(name, way, 1), expected, strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["branch_in_loop", "condition_reads"])
def test_gradients_of_gradients(name: str) -> None:
    for got, want in zip(outcome(name, "eager", 2), outcome(name, "stock", 2), strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_random_numbers_are_drawn_once() -> None:
    """The gradient is a multiple of the drawn numbers, so that it shows which it has used."""
    v, c = tf.Variable([1.0, 1.0], dtype=tf.float64), tf.Variable([0.0, 0.0], dtype=tf.float64)
    x = tf.constant(1e-3 * ROWS)
    with tf.GradientTape() as tape:
        made = tf_exla.optimize(lambda x: drawn(v, c, x), "1GB")(x)
    # The sine of such small numbers is the number itself, so v appears in its third power.
    np.testing.assert_allclose(tape.gradient(made, v), 3 * made, rtol=1e-5)


def large(n: int, v: Any, c: Any, x: Any) -> tf.Tensor:
    k = rbf(x, x)

    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        c.assign(w)
        return i + 1, tf.tanh(v * (k @ c.read_value()) / n)

    return repeat(4, step, x[:, :1])


def replayed_peaks() -> list[tuple[int, int, int]]:
    found = []
    n = 1501
    x = normal(n, 3)
    v = tf.Variable([1.0], dtype=tf.float64)
    c = tf.Variable(x[:, :1])
    for limit in ("12MB", "60MB"):
        function = tf_exla.optimize(lambda: large(n, v, c, x), limit)

        def step(function: Any = function) -> Any:
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(function())
            return tape.gradient(value, v)

        measured = int(tf_exla.measured_peak(step))
        reports = function.reports()
        found.append((measured, reports[0].limit))
    return found


def test_the_limit_holds() -> None:
    for measured, limit in run_fresh(replayed_peaks):
        assert measured <= limit
