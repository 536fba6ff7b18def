"""Segments: loops whose gradient runs them again have stock's numbers and smaller lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import normal as drawn
from programs import with_gradients
from random_loops import random_loop

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.moves.user_loops.segments import in_segments
from tf_exla.split.search import split

Made = tuple[Callable[..., Any], Sequence[tf.Tensor]]


def recurrence(steps: int) -> Made:
    """A recurrent network that keeps several results of each step."""

    def loss(x: tf.Tensor, w: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        h, total = tf.zeros_like(x[0]), tf.zeros([], x.dtype)
        for k in tf.range(steps):
            z = tf.tanh(h @ w) * tf.sigmoid(x[k] @ v)
            h = tf.sin(z) * tf.exp(-z * z) + 0.1 * h
            total += tf.reduce_sum(h * z)
        return total + tf.reduce_sum(h)

    return with_gradients(loss), (
        drawn(steps, 257, 16),
        drawn(16, 16, seed=1),
        drawn(16, 16, seed=2),
    )


def lstm() -> Made:
    tf.random.set_seed(0)
    layer = tf.keras.layers.LSTM(16, return_sequences=True)
    x = drawn(301, 60, 5, dtype="float32")
    layer(x[:1])

    def function(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(layer(x) ** 2)
        return loss, tape.gradient(loss, layer.trainable_variables)

    return function, (x,)


def scanned() -> Made:
    def loss(x: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        states = tf.scan(
            lambda h, row: tf.tanh(a * h + tf.exp(-row * row)) * row, x, tf.zeros_like(x[0])
        )
        return tf.reduce_sum(states**2)

    return with_gradients(loss), (drawn(101, 5000), drawn(5000, seed=1))


def stopping_early() -> Made:
    """The number of iterations depends on data, and only its upper bound is known."""

    def loss(x: tf.Tensor) -> tf.Tensor:
        h, k = x, 0
        while tf.logical_and(k < 90, tf.reduce_max(tf.abs(h)) > 0.2):
            h = tf.sin(tf.exp(-h * h) * tf.tanh(h)) * 0.99
            k += 1
        return tf.reduce_sum(h)

    return with_gradients(loss), (drawn(500, 20),)


def walking() -> Made:
    """A state that is only added to: its gradient is a sum that other gradients read."""

    def loss(x: tf.Tensor) -> tf.Tensor:
        h, g = tf.zeros_like(x[0]) + 0.1, tf.zeros_like(x[0]) + 0.2
        for k in tf.range(61):
            h += x[k]
            g = tf.exp(-g * g) * h
            g = tf.exp(-h * h) * g
        return tf.reduce_sum(tf.sin(h) + tf.sin(g))

    return with_gradients(loss), (drawn(61, 1001, 4),)


PROGRAMS: dict[str, Callable[[], Made]] = {
    "prime": lambda: recurrence(61),
    "square": lambda: recurrence(36),
    "LSTM": lstm,
    "scan": scanned,
    "stops early": stopping_early,
    "only added to": walking,
}
TOLERANCE: dict[str, dict[str, float]] = {
    "float32": {"rtol": 1e-3, "atol": 1e-6},
    "float64": {"rtol": 1e-9, "atol": 1e-12},
}


def planned(made: Made) -> tuple[Graph, Graph, list[Any]]:
    """Return a program, the same in segments, and the operands of both."""
    concrete = tf.function(made[0]).get_concrete_function(*made[1])
    captured = capture(concrete)
    graph = clean(captured.graph, OPS)
    operands = [*made[1], *concrete.captured_inputs, *captured.constants]
    return graph, in_segments(graph, OPS), operands


def flat(structure: Any) -> list[Any]:
    return [np.asarray(tf.convert_to_tensor(one)) for one in tf.nest.flatten(structure)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_stocks_and_lists_are_smaller(name: str) -> None:
    made = PROGRAMS[name]()
    graph, segments, operands = planned(made)
    assert segments is not graph
    check_graph(segments, graph)
    projector = Projector(OPS)
    assert projector.working_set(segments) < 0.75 * projector.working_set(graph)
    for value, want in zip(restore(segments)(operands), flat(made[0](*made[1])), strict=True):
        np.testing.assert_allclose(value, want, **TOLERANCE[value.dtype.name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_quarter_of_the_memory_is_enough(name: str) -> None:
    function, arguments = PROGRAMS[name]()
    peak = tf_exla.explain(function, *arguments, limit="10GB").projected_peak_before
    within = tf_exla.optimize(function, peak // 4, strict=True)
    assert within.report(*arguments).projected_peak <= peak // 4
    for value, want in zip(flat(within(*arguments)), flat(function(*arguments)), strict=True):
        np.testing.assert_allclose(value, want, **TOLERANCE[value.dtype.name])


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed: int) -> None:
    loss, operands = random_loop(seed)
    both = with_gradients(loss)
    graph, segments, given = planned((both, operands))
    if segments is graph:
        pytest.skip("segments do not save half of its lists")
    wanted = [one for one in tf.nest.flatten(tf.function(both)(*operands)) if one is not None]
    room = Projector(OPS).working_set(segments) // 3
    parts = split(Projector(OPS), segments, room, Options(cores=2)).graph
    for program in (segments, parts):
        check_graph(program, graph)
        for value, want in zip(restore(program)(given), wanted, strict=True):
            scale = float(tf.reduce_max(tf.abs(want)))
            np.testing.assert_allclose(value, want, rtol=1e-8, atol=1e-9 * scale)


def test_iterations_that_data_end_need_no_more() -> None:
    """No axis can be split, since the condition reads all elements."""
    function, arguments = stopping_early()
    peak = tf_exla.explain(function, *arguments, limit="10GB").projected_peak_before
    report = tf_exla.explain(function, *arguments, limit=peak // 4)
    assert not report.loops
    assert "loops in segments" in report.details()


def test_a_recurrent_layer_is_split_along_its_batch_as_well() -> None:
    function, arguments = lstm()
    peak = tf_exla.explain(function, *arguments, limit="10GB").projected_peak_before
    report = tf_exla.explain(function, *arguments, limit=peak // 4)
    assert "loops in segments" in report.details()
    assert report.loops[0].extent == arguments[0].shape[0]


def with_maxima() -> Made:
    """Gradients of maxima compare what the segments would compute again."""

    def loss(x: tf.Tensor) -> tf.Tensor:
        h = x
        for _ in tf.range(40):
            best = tf.reduce_max(h, 1, keepdims=True)
            h = tf.sin(tf.round(4 * h) / 4 * best) + tf.where(h > 0.0, h, 0.1 * h)
        return tf.reduce_sum(h)

    return with_gradients(loss), (drawn(640, 21),)


def with_draws() -> Made:
    def loss(x: tf.Tensor) -> tf.Tensor:
        h = x
        for _ in tf.range(40):
            h = tf.sin(tf.exp(-h * h) * tf.random.normal(tf.shape(h), dtype=h.dtype))
        return tf.reduce_sum(h)

    return with_gradients(loss), (drawn(640, 21),)


def of_one_iteration() -> Made:
    return recurrence(1)


@pytest.mark.parametrize("program", [with_maxima, with_draws, of_one_iteration])
def test_what_stays(program: Callable[[], Made]) -> None:
    graph, segments, _ = planned(program())
    assert segments is graph


def measured_in_segments() -> list[int]:
    function, arguments = recurrence(61)
    peak = tf_exla.explain(function, *arguments, limit="10GB").projected_peak_before
    within = tf_exla.optimize(function, peak // 4, strict=True)
    report = within.report(*arguments)
    return [tf_exla.measured_peak(within, *arguments, fresh=False), report.projected_peak]


def test_the_measured_peak_is_as_projected() -> None:
    measured, projected = run_fresh(measured_in_segments)
    assert 0.3 * projected < measured <= projected
