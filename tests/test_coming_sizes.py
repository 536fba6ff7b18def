"""Sizes that appear during a call: elements of iterators, variables without a shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

ROWS, SIZE = 4001, 1600  # two batches of one size, and a smaller last one
X = np.random.default_rng(0).standard_normal((ROWS, 2))
Z = tf.constant(X[:400])
LIMIT = 2_500_000  # half of a batch's kernel matrix


def batches(repeat: bool = False) -> Any:
    data = tf.data.Dataset.from_tensor_slices((X, np.sin(X[:, :1])))
    return iter((data.repeat() if repeat else data).batch(SIZE))


def loss(x: tf.Tensor, y: tf.Tensor, w: Any) -> tf.Tensor:
    gaps = tf.reduce_sum(tf.square(x[:, None] - Z[None]), -1)
    return tf.reduce_sum(tf.square(tf.matmul(tf.exp(-gaps), tf.reshape(w, [-1, 1])) - y))


def weights() -> tf.Variable:
    return tf.Variable(tf.fill([400], tf.constant(0.1, tf.float64)))


def captured() -> Callable[[], Any]:
    data, w = batches(), weights()
    return lambda: loss(*next(data), w)


def held() -> Callable[[], Any]:
    """TensorFlow has no gradient of an iterator: a tape must not look for one."""
    data, w = batches(), weights()
    return lambda: loss(*map(tf.stop_gradient, next(data)), w)


def held_after_a_step() -> Callable[[], Any]:
    data, w, rate = batches(repeat=True), weights(), tf.Variable(1e-9, dtype=tf.float64)

    def function() -> Any:
        x, y = map(tf.stop_gradient, next(data))
        w.assign_sub(rate * tf.reduce_sum(x) * tf.ones_like(w))
        x, y = map(tf.stop_gradient, next(data))
        return loss(x, y, w)

    return function


def argument() -> Callable[[], Any]:
    data, w = batches(), weights()
    return lambda iterator=data: loss(*next(iterator), w)


def training_step() -> Callable[[], Any]:
    data, w = batches(repeat=True), weights()

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(*next(data), w)
        w.assign_sub(1e-4 * tape.gradient(value, w))
        return value, w.read_value()

    return step


def two_steps() -> Callable[[], Any]:
    """The second `next` comes after the assignment of the first step."""
    once = training_step()
    return lambda: (once(), once())


def after_effects() -> Callable[[], Any]:
    data, w, count = batches(), weights(), tf.Variable(0)

    def function() -> Any:
        count.assign_add(1)
        noise = tf.random.normal([3], dtype=tf.float64)
        value = loss(*next(data), w)
        count.assign_add(10)
        return value + 0.0 * tf.reduce_sum(noise), count.read_value(), count + 1

    return function


def two_iterators() -> Callable[[], Any]:
    one, other, w = batches(), batches(), weights()

    def function() -> Any:
        (x, _), (_, y) = next(one), next(other)
        return loss(x, y, w), tf.shape(x), x

    return function


def optional() -> Callable[[], Any]:
    data, w = batches(), weights()
    return lambda: loss(*data.get_next_as_optional().get_value(), w)


def variable_without_a_shape() -> Callable[[], Any]:
    rows = tf.Variable(X, shape=tf.TensorShape(None))
    w = weights()

    def function() -> Any:
        value = loss(tf.ensure_shape(rows, [None, 2]), tf.zeros([1, 1], tf.float64), w)
        rows.assign(rows[: tf.shape(rows)[0] // 2])
        return value, rows.read_value()

    return function


def variable_that_is_read() -> Callable[[], Any]:
    rows = tf.Variable(X, shape=tf.TensorShape([None, 2]))
    w = weights()
    return lambda: loss(rows, tf.zeros([1, 1], tf.float64), w)


def ragged() -> Callable[[], Any]:
    splits = [0, 7, 7, ROWS]
    rows = tf.RaggedTensor.from_row_splits(X, splits)
    return lambda rows=rows: (loss(rows.values, tf.zeros([1, 1], tf.float64), weights_of), rows)


weights_of = tf.constant(np.full(400, 0.1))

CASES = (
    captured,
    held,
    held_after_a_step,
    argument,
    training_step,
    two_steps,
    after_effects,
    two_iterators,
    optional,
    variable_without_a_shape,
    variable_that_is_read,
    ragged,
)


def results(function: Callable[[], Any], calls: int) -> list[Any]:
    """Return the results of calls until the data ends."""
    made: list[Any] = []
    try:
        for _ in range(calls):
            made.append(function())
    except (tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError):
        made.append("end")
    return made


def check_equal(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for new, old in zip(found, expected, strict=True):
        if isinstance(old, str) or isinstance(new, str):
            assert new is old
            continue
        tf.nest.assert_same_structure(new, old, expand_composites=True)
        for a, b in zip(tf.nest.flatten(new, True), tf.nest.flatten(old, True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.one_of(2)
@pytest.mark.filterwarnings("error::tf_exla.UnboundedMemoryWarning")
@pytest.mark.parametrize("make", CASES)
def test_each_call_is_planned_for_the_sizes_that_came(make: Callable[[], Any]) -> None:
    optimized = tf_exla.optimize(tf.function(make(), autograph=False), LIMIT)
    check_equal(results(optimized, 4), results(tf.function(make(), autograph=False), 4))
    for report in optimized.reports():
        assert report.projected_peak <= LIMIT
    assert any(report.projected_peak_before > LIMIT for report in optimized.reports())


@pytest.mark.parametrize("make", [held, held_after_a_step, variable_that_is_read])
def test_gradients_of_a_tape_around_the_call(make: Callable[[], Any]) -> None:
    def gradients(function: Any) -> list[Any]:
        made = []
        for _ in range(3):
            with tf.GradientTape(persistent=True) as tape:
                value = tf.nest.flatten(function())[0]
                squared = value * value
            found = tape.gradient(squared, tape.watched_variables())
            made.append([each for each in found if each is not None])
        return made

    stock, ours = (tf.function(make(), autograph=False) for _ in range(2))
    found = gradients(tf_exla.optimize(ours, 2 * LIMIT))
    assert found[0]
    check_equal(found, gradients(stock))


def test_the_data_is_pulled_once_a_call() -> None:
    data = iter(tf.data.Dataset.range(5))
    optimized = tf_exla.optimize(lambda: (next(data), next(data)), "2MB")
    assert [int(x) for x in (*optimized(), *optimized())] == [0, 1, 2, 3]
    with pytest.raises(tf.errors.OutOfRangeError):
        optimized()


def test_a_call_inside_of_another_function_keeps_its_numbers() -> None:
    data, w = batches(), weights()
    optimized = tf_exla.optimize(lambda: loss(*next(data), w), "1GB")
    expected = results(tf.function(captured()), 4)
    check_equal(results(tf.function(lambda: optimized() + 0.0), 4), expected)


def test_an_infeasible_limit_is_refused_for_the_sizes_that_came() -> None:
    data, w = batches(), weights()
    optimized = tf_exla.optimize(lambda: loss(*next(data), w), "1kB")
    with pytest.raises(tf_exla.MemoryLimitError):
        optimized()
