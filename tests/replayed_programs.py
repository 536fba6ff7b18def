"""Differentiated control flow with side effects inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

Program = Callable[[tf.Variable, tf.Variable, tf.Tensor], tf.Tensor]
"""A function of a factor, a state that changes, and rows of numbers."""


def repeat(times: int, step: Callable[[tf.Tensor, tf.Tensor], Any], start: tf.Tensor) -> Any:
    return tf.while_loop(lambda i, *_: i < times, step, (tf.constant(0), start))[1]


def written_only(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        c.assign_add(w)
        return i + 1, tf.sin(w) * v

    return repeat(4, step, x[0])


def read_around(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """The state is read before the loop, before and after the assignment in it, and after it."""
    before = c + 1.0

    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        first = tf.exp(0.1 * c)
        c.assign(w)
        return i + 1, tf.sin(w) * v * first * c

    return repeat(4, step, x[0]) * before * c * c


def factor_changes(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """The differentiated variable is assigned in the loop."""

    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        made = tf.sin(w) * v
        v.assign(0.9 * v)
        return i + 1, made

    return repeat(3, step, x[0]) * v


def in_branch(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def taken() -> tf.Tensor:
        c.assign_add(x[1])
        return x[0] * c * v

    return tf.cond(x[0, 0] > 0, taken, lambda: x[0] * v) * c


def branch_in_loop(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        def odd() -> tf.Tensor:
            c.assign_add(w)
            return w * c

        return i + 1, tf.sin(tf.cond(i % 2 > 0, odd, lambda: w * v))

    return repeat(5, step, x[0])


def loop_in_branch(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        c.assign_add(w)
        return i + 1, tf.sin(w * c) * v

    taken = lambda: repeat(3, step, x[0])  # noqa: E731
    return tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x[1] * v, taken, lambda: x[2]])


def nested(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def outer(i: tf.Tensor, w: tf.Tensor) -> Any:
        def inner(j: tf.Tensor, u: tf.Tensor) -> Any:
            c.assign_add(u)
            return j + 1, tf.tanh(u * c) * v

        return i + 1, repeat(2, inner, w) + c

    return repeat(3, outer, x[0])


def in_function(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    @tf.function(autograph=False)
    def call(w: tf.Tensor) -> tf.Tensor:
        c.assign_add(w)
        return w * c * v

    return repeat(3, lambda i, w: (i + 1, tf.sin(call(w))), x[0])


def scanned(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def step(before: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        c.assign_add(before)
        return tf.sin(before * row) * v * c

    return tf.scan(step, x, initializer=x[0])


def mapped(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def each(row: tf.Tensor) -> tf.Tensor:
        c.assign_add(row)
        return row * c * v

    return tf.map_fn(each, x)


def condition_reads(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """The condition reads a variable that the body assigns; the iterations are still bounded."""

    def step(w: tf.Tensor) -> Any:
        c.assign_add(tf.ones_like(c))
        return [tf.sin(w) * v * c]

    more = lambda w: tf.reduce_sum(c) < 5.5  # noqa: E731
    return tf.while_loop(more, step, [x[0]], maximum_iterations=50)[0]


def python_loop(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """AutoGraph's loop over rows, with an early end."""

    @tf.function
    def rows(x: tf.Tensor) -> tf.Tensor:
        w = x[0]
        for row in x:
            c.assign_add(row)
            if tf.reduce_sum(c) > 5.0:
                break
            w = tf.sin(w * row) * v * c
        return w

    return rows(x)


def never_runs(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        c.assign_add(w)
        return i + 1, w * c

    return repeat(0, step, x[0]) * v * c


def checked(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        tf.debugging.assert_less(i, 9)
        return i + 1, tf.sin(w) * v

    return repeat(3, step, x[0])


def drawn(v: tf.Variable, c: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """Random numbers that must not be drawn again; the state records them."""

    def step(i: tf.Tensor, w: tf.Tensor) -> Any:
        some = tf.random.uniform([2], dtype=w.dtype)
        c.assign(some)
        return i + 1, tf.sin(w * some) * v * c

    return repeat(3, step, x[0])


PROGRAMS: Mapping[str, Program] = {
    program.__name__: program
    for program in (
        written_only, read_around, factor_changes, in_branch, branch_in_loop, loop_in_branch,
        nested, in_function, scanned, mapped, condition_reads, python_loop, never_runs, checked,
    )
}  # fmt: skip
