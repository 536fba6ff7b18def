"""Gradients through optimized functions equal TensorFlow's, in every way of requesting them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from needs import GPFLOW

import tf_exla

RNG = np.random.default_rng(0)
# Recomputed and chunked sums reorder additions.
RTOL = 1e-10


def optimize(fn: Any, limit: Any = "1GB") -> tf_exla.OptimizedFunction:
    return tf_exla.optimize(fn, limit)


def eager(fn: Any, *sources: Any) -> Any:
    with tf.GradientTape() as tape:
        for source in sources:
            tape.watch(source)
        y = fn()
    return tape.gradient(y, sources)


def tape_inside(fn: Any, *sources: Any) -> Any:
    return tf.function(lambda: eager(fn, *sources))()


def tape_outside(fn: Any, *sources: Any) -> Any:
    return eager(tf.function(lambda: fn()), *sources)


WAYS = [eager, tape_inside, tape_outside]


@pytest.mark.parametrize("way", WAYS)
def test_variables_and_captured_tensors(way: Callable[..., Any]) -> None:
    variable = tf.Variable(RNG.normal(size=(3, 3)))
    tensor = tf.constant(RNG.normal(size=(4, 3)))

    def fn() -> Any:
        return tf.reduce_sum(tf.exp(tf.matmul(tensor, variable)) * tensor)

    for got, expected in zip(
        way(optimize(fn), variable, tensor), way(tf.function(fn), variable, tensor), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=RTOL)


@pytest.mark.parametrize("way", WAYS)
def test_arguments(way: Callable[..., Any]) -> None:
    x, y = tf.constant(RNG.normal(size=5)), tf.Variable(RNG.normal(size=5))
    k = tf.constant([2, 0, 1])

    def fn(pair: Any, k: Any, scale: float = 1.0) -> Any:
        return {"a": tf.reduce_sum(tf.sin(pair[0]) * pair[1]) * scale, "k": k, "b": pair[0] ** 2}

    def total(f: Any) -> Any:
        made = f((x, y), k, scale=3.0)
        return made["a"] + tf.reduce_sum(tf.gather(made["b"], made["k"]))

    optimized = optimize(fn)
    for got, expected in zip(
        way(lambda: total(optimized), x, y), way(lambda: total(fn), x, y), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=RTOL)


def nested(fn: Any, x: Any, order: int) -> Any:
    if order == 0:
        return fn()
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nested(fn, x, order - 1)
    return tape.gradient(y, x)


@pytest.mark.each_value
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("where", ["eager", "inside", "outside"])
@pytest.mark.parametrize("kind", ["variable", "tensor"])
def test_gradients_of_gradients(order: int, where: str, kind: str) -> None:
    x: Any = tf.constant(1.3, tf.float64)
    if kind == "variable":
        x = tf.Variable(x)
    f = optimize(lambda: tf.sin(x) * x**4)
    if where == "eager":
        got = nested(f, x, order)
    elif where == "inside":
        got = tf.function(lambda: nested(f, x, order))()
    else:
        outer = tf.function(lambda: f() * 1)
        got = nested(outer, x, order)
    np.testing.assert_allclose(got, nested(lambda: tf.sin(x) * x**4, x, order), rtol=RTOL)


def test_a_gradient_penalty_trains() -> None:
    """The gradient of a gradient with respect to another source."""
    w, x = tf.Variable([1.0, 2.0]), tf.constant([0.3, 0.4])

    def fn(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(w * x) ** 2)

    def penalty(f: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            g = inner.gradient(y, x)
            loss = tf.reduce_sum(g**2)
        return outer.gradient(loss, w)

    np.testing.assert_allclose(penalty(optimize(fn)), penalty(fn), rtol=1e-5)


def test_unconnected_and_integer_inputs() -> None:
    x, y, k = tf.constant(2.0), tf.constant(3.0), tf.constant(1)
    f = optimize(lambda x, y, k: (x * tf.cast(k, tf.float32), k))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        out, same = f(x, y, k)
    assert same.dtype == tf.int32
    assert tape.gradient(out, y) is None
    assert tape.gradient(out, y, unconnected_gradients=tf.UnconnectedGradients.ZERO) == 0
    assert tape.gradient(out, x) == 1
    assert tape.gradient(out, x) == 1  # persistent


def test_several_outputs_some_unused() -> None:
    x = tf.Variable(2.0)
    f = optimize(lambda: (x**2, x**3, x + 1))
    with tf.GradientTape(persistent=True) as tape:
        a, b, _ = f()
        loss = a * b
    assert tape.gradient(loss, x) == 80
    assert tape.gradient(b, x) == 12


def test_jacobian() -> None:
    x = tf.constant(RNG.normal(size=4))
    f = optimize(lambda x: tf.exp(x) * tf.reduce_sum(x))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, expected = f(x), tf.exp(x) * tf.reduce_sum(x)
    got = tape.jacobian(y, x, experimental_use_pfor=False)
    np.testing.assert_allclose(got, tape.jacobian(expected, x), rtol=RTOL)


def test_values_at_the_forward_pass_count() -> None:
    """A variable that is assigned between the two passes does not change the gradient."""
    x = tf.Variable(3.0)
    f = optimize(lambda: x**2)
    with tf.GradientTape() as tape:
        y = f()
    x.assign(100.0)
    assert tape.gradient(y, x) == 6


def test_gathered_rows_at_the_forward_pass_count() -> None:
    table = tf.Variable(RNG.normal(size=(6, 2)))
    f = optimize(lambda: tf.reduce_sum(tf.gather(table, [1, 1, 4]) ** 2))
    before = table.numpy()
    with tf.GradientTape() as tape:
        y = f()
    table.assign(table * 0)
    got = tf.convert_to_tensor(tape.gradient(y, table))
    expected = np.zeros((6, 2))
    expected[1], expected[4] = 4 * before[1], 2 * before[4]
    np.testing.assert_allclose(got, expected)


def test_random_numbers_are_those_of_the_forward_pass() -> None:
    x = tf.Variable(tf.ones(50))
    f = optimize(lambda: tf.nn.dropout(x * 2, 0.5))
    with tf.GradientTape() as tape:
        y = f()
        loss = tf.reduce_sum(y)
    np.testing.assert_array_equal(tape.gradient(loss, x), y)  # y = 2 mask / 0.5, x = 1
    assert 0 < np.count_nonzero(y) < 50


@pytest.mark.parametrize("way", WAYS)
def test_effects_happen_once(way: Callable[..., Any]) -> None:
    log: list[float] = []
    x, count = tf.Variable(3.0), tf.Variable(0)

    def fn() -> Any:
        tf.py_function(lambda v: log.append(float(v)), [x], [])
        count.assign_add(1)
        tf.debugging.assert_positive(x)
        return x**2

    (got,) = way(optimize(fn), x)
    assert (float(got), log, int(count)) == (6, [3], 1)


@pytest.mark.parametrize("way", WAYS)
def test_python_functions(way: Callable[..., Any]) -> None:
    """Their gradient needs the tape of the forward pass."""
    x = tf.Variable([1.0, 2.0, 3.0])

    def fn() -> Any:
        y = tf.py_function(lambda v: tf.sin(v) * v, [x], tf.float32)
        return tf.reduce_sum(tf.ensure_shape(y, [3]) ** 2)

    for _ in range(2):
        np.testing.assert_allclose(way(optimize(fn), x), way(tf.function(fn), x), rtol=1e-6)


def test_reads_after_assignments() -> None:
    """As in TensorFlow, the gradient is with respect to each value that was read."""

    def make() -> tuple[Any, Any]:
        x = tf.Variable(3.0)

        def fn() -> Any:
            first = x**2
            x.assign(5.0)
            return first * x

        return x, fn

    x, fn = make()
    (expected,) = eager(tf.function(fn), x)
    x, fn = make()
    (got,) = eager(optimize(fn), x)
    assert got == expected == 6 * 5 + 9


def test_custom_gradients_are_used() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        y = tf.exp(x)
        return y, lambda up: up * y * 7

    x = tf.Variable(0.5, dtype=tf.float64)
    g = optimize(lambda: f(x) * 2)
    (got,) = eager(g, x)
    np.testing.assert_allclose(got, 14 * np.exp(0.5))


def test_control_flow() -> None:
    x = tf.Variable(1.1, dtype=tf.float64)

    def fn(n: Any, p: Any) -> Any:
        y = tf.constant(1.0, tf.float64)
        for _ in tf.range(n):
            y = y * x
        return y + x if p else tf.sin(y)

    f = optimize(fn)
    for p in (True, False):
        args = tf.constant(4), tf.constant(p)
        (got,) = eager(lambda args=args: f(*args), x)
        (expected,) = eager(lambda args=args: tf.function(fn)(*args), x)
        np.testing.assert_allclose(got, expected, rtol=RTOL)


def test_random_numbers_of_a_loop_are_those_of_the_forward_pass() -> None:
    x = tf.Variable(1.1)

    def fn(n: Any) -> Any:
        y = tf.constant(1.0)
        for _ in tf.range(n):
            y = y * x * tf.random.uniform([])
        return y

    with tf.GradientTape() as tape:
        y = optimize(fn)(tf.constant(3))
    np.testing.assert_allclose(tape.gradient(y, x), 3 * y / x, rtol=1e-5)


def test_optimized_inside_optimized() -> None:
    x = tf.Variable(2.0)
    inner = optimize(lambda: x**2)
    outer = optimize(lambda: inner() * x)
    (got,) = eager(outer, x)
    assert got == 12


def sgpr(n: int = 3000) -> Any:
    gpflow = pytest.importorskip("gpflow")
    x = np.random.default_rng(1).normal(size=(n, 2))
    return gpflow.models.SGPR(
        (x, np.sin(x[:, :1])), gpflow.kernels.Matern32(lengthscales=[1.0, 1.0]), x[:50].copy()
    )


@pytest.mark.each_value
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit", ["1GB", "4MB"])
def test_gpflow(way: Callable[..., Any], limit: str) -> None:
    """The limit of 4 MB splits both passes: each tensor of [M, N] has 1.2 MB."""
    model = sgpr()
    sources = model.trainable_variables
    f = optimize(model.training_loss, limit)
    for got, expected in zip(way(f, *sources), eager(model.training_loss, *sources), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)
    if limit == "4MB":
        assert f.report().loops


def test_keras_training_is_the_same() -> None:
    losses = []
    for wrap in (lambda f: optimize(f, "4MB"), tf.function):
        model = sgpr()
        optimizer = tf.keras.optimizers.Adam(0.05)
        f, sources = wrap(model.training_loss), model.trainable_variables
        before = float(f())
        for _ in range(5):
            optimizer.apply_gradients(zip(eager(f, *sources), sources, strict=True))
        losses.append(float(f()))
        assert losses[-1] < before
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-7)


def training_step_peak() -> tuple[int, int]:
    """Return projected and measured working set of loss and gradient, a tape around the call."""
    model = sgpr(50_000)
    f = optimize(model.training_loss, "25MB")

    def step() -> Any:
        return eager(f, *model.trainable_variables)

    step()
    plans = [program.recording_plan for program in f._programs.values()]
    plans += [g.program.plan for p in f._programs.values() for g in p._gradients.values()]
    return max(plan.working_set for plan in plans), tf_exla.measured_peak(step).working_set


@GPFLOW
def test_a_tape_around_the_call_keeps_the_limit() -> None:
    """Both passes are plans: TensorFlow's own gradient would keep tensors of 20 MB each."""
    projected, measured = run_fresh(training_step_peak)
    assert measured <= projected < 25_000_000
