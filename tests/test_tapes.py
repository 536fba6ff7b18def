"""Tapes and forward accumulators around calls, also inside of control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf.planning.fallback import Listener

Y = tf.constant([1.0, 2.0])
ONES = tf.ones_like(Y)
POINTS = tf.random.stateless_uniform([900], [1, 2])
LARGE = tf.constant(np.random.default_rng(0).random(900, "float32"))  # captured, not folded


def cube(x: tf.Tensor) -> tf.Tensor:
    return x**3


def hessian_product(q: Callable[..., Any]) -> Any:
    """Forward over reverse, as TensorFlow's documentation writes it."""
    with tf.autodiff.ForwardAccumulator(Y, ONES) as tangents:
        with tf.GradientTape() as tape:
            tape.watch(Y)
            loss = tf.reduce_sum(q(Y) ** 2)
        gradient = tape.gradient(loss, Y)
    return tangents.jvp(gradient), tangents.jvp(loss)


def tape_outside(q: Callable[..., Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(Y)
        with tf.autodiff.ForwardAccumulator(Y, ONES) as tangents:
            total = tf.reduce_sum(q(Y))
        return tangents.jvp(total)


def other_input(q: Callable[..., Any]) -> Any:
    """A tape watches one input, an accumulator the other."""
    x = tf.constant([3.0, 4.0])
    with tf.autodiff.ForwardAccumulator(Y, ONES) as tangents:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(q(x * Y) * x) + tf.reduce_sum(Y * x)
        gradient = tape.gradient(loss, x)
    return tangents.jvp(loss), tangents.jvp(gradient)


@pytest.mark.each_value
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("program", [hessian_product, tape_outside, other_input])
def test_forward_accumulators(program: Callable[..., Any], graph: bool) -> None:
    found, expected = [], []
    for q, made in (
        (tf_exla.optimize(cube, "100MB", strict=True), found),
        (tf.function(cube), expected),
    ):
        run = (
            tf.function(lambda q=q: program(q), autograph=False)
            if graph
            else lambda q=q: program(q)
        )
        made += tf.nest.flatten(run())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def kernel(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(-((x[:, None] - x[None]) ** 2)), 1) * x


def weighted(x: tf.Tensor) -> tf.Tensor:
    return x * tf.reduce_sum(x * LARGE)


def in_a_loop(q: Callable[..., Any], x: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, q(y) / 900), (0, x))
    return tape.gradient(y, x)


def in_a_choice(q: Callable[..., Any], x: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.cond(x[0] < 9, lambda: tf.reduce_sum(q(x)), lambda: 0.0)
    return tape.gradient(loss, x)


def in_a_choice_in_a_loop(q: Callable[..., Any], x: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        step = lambda i, y: (i + 1, tf.cond(y[0] < 9, lambda: q(y) / 900, lambda: y))  # noqa: E731
        _, y = tf.while_loop(lambda i, y: i < 2, step, (0, x))
    return tape.gradient(y, x)


def in_two_loops(q: Callable[..., Any], x: tf.Tensor) -> Any:
    """A choice in a loop in a loop: each gradient is made in the graph of the one around it."""

    def inner(y: tf.Tensor) -> tf.Tensor:
        step = lambda i, y: (i + 1, tf.cond(y[0] < 9, lambda: q(y) / 900, lambda: y))  # noqa: E731
        return tf.while_loop(lambda i, y: i < 2, step, (0, y))[1]

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, inner(y)), (0, x))[1]
    return tape.gradient(y, x)


@pytest.mark.each_value
@pytest.mark.parametrize("function", [kernel, weighted])
@pytest.mark.parametrize("program", [in_a_loop, in_a_choice, in_a_choice_in_a_loop, in_two_loops])
def test_gradients_through_control_flow(
    program: Callable[..., Any], function: Callable[..., Any]
) -> None:
    optimized = tf_exla.optimize(function, "3MB", strict=True)
    found = tf.function(lambda x: program(optimized, x), autograph=False)(POINTS)
    expected = tf.function(lambda x: program(function, x), autograph=False)(POINTS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_limit_holds_for_sizes_given_by_negative_numbers(sign: int) -> None:
    def function(x: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        y = x[:k] if sign > 0 else x[-k:]
        return tf.reduce_sum(tf.linalg.inv(y @ tf.transpose(y) + tf.eye(tf.shape(y)[0])))

    x = tf.random.stateless_uniform([900, 4], [1, 2])
    optimized = tf_exla.optimize(function, "9MB", strict=True)
    assert np.isfinite(optimized(x, tf.constant(20)))
    with pytest.raises(tf_exla.MemoryLimitError):
        optimized(x, tf.constant(900))


@pytest.mark.parametrize("assigned", [False, True])
@pytest.mark.parametrize("batch", [False, True])
def test_jacobians_are_planned_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, batch: bool, assigned: bool
) -> None:
    """They vectorize the original gradient, with the values that variables had in the call."""
    scale = tf.Variable(1.5)

    @tf.function
    def moments(x: tf.Tensor) -> tf.Tensor:
        differences = x[..., :, None] - x[..., None, :]
        rows = tf.reduce_sum(tf.exp(-scale * differences**2), -1)
        return tf.stack([tf.reduce_sum(rows, -1), tf.reduce_sum(rows**2, -1)], -1)

    planned: list[int] = []
    monkeypatch.setattr(
        Listener, "planned", lambda _, __, plan: planned.append(len(plan.original.nodes))
    )

    def jacobian(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = moments(x)
        value = scale.read_value()
        if assigned:
            scale.assign(9.0)
        made = tape.batch_jacobian(y, x) if batch else tape.jacobian(y, x)
        scale.assign(value)
        return made

    x = tf.stack([POINTS, POINTS[::-1]]) if batch else POINTS
    expected = jacobian(x)
    with tf_exla.limit("3MB", strict=True):
        found = jacobian(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(planned) == 2  # the function and its Jacobian; not the gradient for itself
