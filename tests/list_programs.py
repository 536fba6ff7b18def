"""Loops that keep tensors of each iteration: for their gradients, or in arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from programs import normal, rbf, with_gradients

Program = tuple[Callable[..., Any], Sequence[Any]]
X, V = normal(901, 3), normal(901, 1)


def repeat(times: Any, step: Callable[..., Any], start: Any, **options: Any) -> Any:
    return tf.while_loop(lambda i, *_: i < times, step, (tf.constant(0), start), **options)[1]


def kernel_outside() -> Program:
    """The gradient of K is summed over the iterations."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x)
        return tf.reduce_sum(repeat(5, lambda i, w: (i + 1, tf.tanh(tf.matmul(k, w))), v))

    return with_gradients(function), (X, V)


def kernel_inside() -> Program:
    """Each iteration's K is kept for its gradient."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        step = lambda i, w: (i + 1, tf.tanh(tf.matmul(rbf(x + w, x), w)))  # noqa: E731
        return tf.reduce_sum(repeat(4, step, v))

    return with_gradients(function), (X, V)


def at_most() -> Program:
    """The number of iterations is bounded, but known only at run time."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        def more(w: tf.Tensor) -> tf.Tensor:
            return tf.reduce_max(tf.abs(w)) > 1e-30

        step = lambda w: [tf.matmul(rbf(x + w, x), w) / 901.0]  # noqa: E731
        (w,) = tf.while_loop(more, step, [v], maximum_iterations=3)
        return tf.reduce_sum(w)

    return with_gradients(function), (X, V)


def nested() -> Program:
    """A list of lists."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        def outer(i: tf.Tensor, w: tf.Tensor) -> Any:
            inner = lambda j, u: (j + 1, tf.tanh(tf.matmul(rbf(x + u, x), u)))  # noqa: E731
            return i + 1, repeat(2, inner, w)

        return tf.reduce_sum(repeat(2, outer, v))

    return with_gradients(function), (X[:601], V[:601])


def counted_down() -> Program:
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        start = (tf.constant(6), v)
        step = lambda i, w: (i - 2, tf.sin(rbf(x + w, x) @ w))  # noqa: E731
        return tf.reduce_sum(tf.while_loop(lambda i, w: 0 < i, step, start)[1])

    return with_gradients(function), (X, V)


def python_loop() -> Program:
    """AutoGraph's loop over a range."""

    @tf.function
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        for _ in tf.range(3):
            v = tf.tanh(tf.matmul(rbf(x + v, x), v))
        return tf.reduce_sum(v)

    return with_gradients(function), (X, V)


def array() -> Program:
    """An array is written and stacked."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        rows = tf.TensorArray(x.dtype, size=7)
        step = lambda i, one: (i + 1, one.write(i, rbf(x, x + tf.cast(i, x.dtype))))  # noqa: E731
        return tf.linalg.matvec(repeat(7, step, rows).stack(), v[:, 0])

    return function, (X[:501], V[:501])


def growing_array() -> Program:
    """The loop may end early; the array has a size."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        rows = tf.TensorArray(x.dtype, size=3, element_shape=[501, 501])

        def step(i: tf.Tensor, w: tf.Tensor, one: tf.TensorArray) -> Any:
            k = rbf(x + w, x)
            return i + 1, tf.tanh(tf.matmul(k, w)), one.write(i, k)

        more = lambda i, w, one: tf.reduce_any(w < 2.0) & (i < 3)  # noqa: E731
        found = tf.while_loop(more, step, (tf.constant(0), v, rows))
        return tf.reduce_sum(found[2].stack(), 0)

    return function, (X[:501], V[:501])


def mapped() -> Program:
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        scales = tf.constant([0.5, 1.0, 1.5, 2.0], x.dtype)
        return tf.map_fn(lambda scale: tf.matmul(rbf(x, x, scale), v), scales)

    return with_gradients(function), (X[:601], V[:601])


def mapped_inside() -> Program:
    """The gradient of the inner loop reads its trip count from a list of the outer one."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        scales = tf.constant([0.5, 1.0], x.dtype)

        def step(i: tf.Tensor, w: tf.Tensor) -> Any:
            parts = tf.map_fn(lambda scale: tf.matmul(rbf(x, x, scale), w), scales)
            return i + 1, tf.tanh(tf.reduce_sum(parts, 0))

        return tf.reduce_sum(tf.while_loop(lambda i, w: i < 2, step, (0, v))[1])

    return with_gradients(function), (X[:601], V[:601])


def scanned() -> Program:
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        step = lambda w, scale: tf.tanh(tf.matmul(rbf(x + w, x, scale), w))  # noqa: E731
        return tf.scan(step, tf.constant([0.5, 1.0, 1.5], x.dtype), initializer=v)

    return with_gradients(function), (X[:601], V[:601])


def mapped_in_branch() -> Program:
    """The gradient of the loop reads its trip count from an optional of the branch."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        scales = tf.constant([0.5, 1.0], x.dtype)
        rows = lambda: tf.map_fn(lambda scale: tf.matmul(rbf(x, x, scale), v), scales)  # noqa: E731
        return tf.cond(v[0, 0] < 10.0, rows, lambda: tf.stack([v, v]))

    return with_gradients(function), (X[:601], V[:601])


def in_branch() -> Program:
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        def step(i: tf.Tensor, w: tf.Tensor) -> Any:
            return i + 1, tf.cond(
                i % 2 > 0, lambda: tf.tanh(tf.matmul(rbf(x + w, x), w)), lambda: -w
            )

        return tf.reduce_sum(repeat(4, step, v))

    return with_gradients(function), (X, V)


def rarely_ends() -> Program:
    """The number of iterations is unknown: lists of the gradient may grow without bound."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        more = lambda w: tf.reduce_max(tf.abs(w)) > 1e-3  # noqa: E731
        (w,) = tf.while_loop(more, lambda w: [tf.matmul(rbf(x + w, x), w) / 2000.0], [v])
        return tf.reduce_sum(w)

    return with_gradients(function), (X, V)


def small_steps() -> Program:
    """As above, but an iteration keeps only a few numbers."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        more = lambda a: a > 1e-3  # noqa: E731
        (a,) = tf.while_loop(more, lambda a: [0.5 * tf.sin(a)], [tf.reduce_max(v)])
        return tf.reduce_sum(tf.matmul(rbf(x, x), v)) * a

    return with_gradients(function), (X, V)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "kernel outside": kernel_outside,
    "kernel inside": kernel_inside,
    "at most": at_most,
    "nested": nested,
    "counted down": counted_down,
    "python loop": python_loop,
    "array": array,
    "growing array": growing_array,
    "mapped": mapped,
    "mapped inside": mapped_inside,
    "mapped in branch": mapped_in_branch,
    "scanned": scanned,
    "in branch": in_branch,
    "small steps": small_steps,
}
