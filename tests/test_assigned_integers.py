"""Sizes read from integer variables that the same function has assigned."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

Program = Callable[[tf.Variable, tf.Variable, tf.Tensor], tf.Tensor]


def rows(n: tf.Tensor | tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """Sum a kernel of `n` new points and those of x."""
    points = tf.cast(tf.range(n), x.dtype)
    return tf.reduce_sum(tf.exp(-tf.square(points[:, None] - x[None])))


def constant(n: tf.Variable, m: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    n.assign(7)
    return rows(n, x)


def computed(n: tf.Variable, m: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    n.assign(2 * tf.shape(x)[0])
    m.assign(3)
    return rows(n + m, x)


def before_and_after(n: tf.Variable, m: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    old = n.read_value()
    n.assign(4)
    new = n.read_value()
    n.assign(6)
    return tf.cast(1000 * old + 100 * new + n, x.dtype) + rows(n, x)


def in_a_branch(n: tf.Variable, m: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def fresh() -> tf.Tensor:
        n.assign(7)
        m.assign(0)
        return rows(n, x)

    return tf.cond(m > 0, fresh, lambda: tf.reduce_sum(x)) + tf.cast(n, x.dtype)


def in_a_call(n: tf.Variable, m: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        n.assign(tf.minimum(n + 2, 11))
        return rows(n, x)

    return inner(x) + rows(n, x) + inner(x)


PROGRAMS = [constant, computed, before_and_after, in_a_branch, in_a_call]


@pytest.mark.parametrize("program", PROGRAMS)
def test_sizes_that_were_assigned_have_bounds(program: Program) -> None:
    x = tf.constant(np.linspace(0, 3, 1_201))
    found = []
    for limit in (None, 2_000_000):
        n, m = tf.Variable(5), tf.Variable(1)

        def function(x: tf.Tensor, n: tf.Variable = n, m: tf.Variable = m) -> tf.Tensor:
            return program(n, m, x)

        run = tf.function(function) if limit is None else tf_exla.optimize(function, limit)
        found.append([*(run(x).numpy() for _ in range(3)), n.numpy(), m.numpy()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def added(n: tf.Variable, m: tf.Variable) -> tf.Tensor:
    n.assign(4)
    n.assign_add(m)
    return n.read_value()


def in_a_loop(n: tf.Variable, m: tf.Variable) -> tf.Tensor:
    n.assign(4)
    tf.while_loop(lambda k: k < 3, lambda k: n.assign_add(k + m) * 0 + k + 1, [0])
    return n.read_value()


def chosen(n: tf.Variable, m: tf.Variable) -> tf.Tensor:
    n.assign(4)
    tf.cond(m > 0, lambda: n.assign(8), lambda: n.assign(9))
    return n.read_value()


def swapped(n: tf.Variable, m: tf.Variable) -> tf.Tensor:
    first, second = n.read_value(), m.read_value()
    n.assign(second)
    m.assign(first)
    return 100 * n + m


@pytest.mark.parametrize("program", [added, in_a_loop, chosen, swapped])
def test_later_writes_are_seen(program: Callable[..., tf.Tensor]) -> None:
    found = []
    for limit in (None, 2_000_000):
        n, m = tf.Variable(5), tf.Variable(1)

        def function(n: tf.Variable = n, m: tf.Variable = m) -> tf.Tensor:
            return program(n, m)

        run = tf.function(function) if limit is None else tf_exla.optimize(function, limit)
        found.append([*(int(run()) for _ in range(3)), int(n), int(m)])
    assert found[1] == found[0]


def test_gradients_of_programs_with_assigned_sizes() -> None:
    x = tf.constant(np.linspace(0, 3, 1_201))
    found = []
    for limit in (None, 2_000_000):
        n = tf.Variable(5)

        def function(x: tf.Tensor, n: tf.Variable = n) -> tf.Tensor:
            n.assign(2 * tf.shape(x)[0] - 1_195)
            return rows(n, x)

        run = tf.function(function) if limit is None else tf_exla.optimize(function, limit)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = run(x)
        found.append(tape.gradient(value, x).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)
