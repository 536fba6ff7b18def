"""Loops that read a large computed tensor row by row: dynamic programs, filters, maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from programs import normal

Program = tuple[Callable[..., Any], Sequence[Any]]
X, Y = normal(701, 2), normal(403, 2)


def distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_sum(tf.square(x[:, None] - y[None]), -1) + 1e-9)


def relaxed(row: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
    return row + tf.minimum(before, tf.roll(before, 1, 0))


def folded() -> Program:
    """The last row of costs of paths through a matrix of distances."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        start = tf.zeros_like(y[:, 0])
        return tf.foldl(lambda cost, row: relaxed(row, cost), distances(x, y), initializer=start)

    return function, (X, Y)


def backward() -> Program:
    """Rows from the last to the first; the matrix has another use."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = distances(x, y)
        start = tf.zeros_like(y[:, 0])
        return tf.foldr(lambda cost, row: relaxed(row, cost), d, initializer=start), tf.reduce_sum(
            d
        )

    return function, (X, Y)


def indexed() -> Program:
    """Rows `d[i]`, columns `e[:, i]` of another matrix, and rows from the end."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d, e = distances(x, y), distances(y, x + 1.0)

        def step(i: tf.Tensor, cost: tf.Tensor) -> Any:
            return i + 1, relaxed(d[i], cost) + e[:, i] - d[-i - 1]

        start = (tf.constant(0), tf.zeros_like(y[:, 0]))
        return tf.while_loop(lambda i, _: i < 49, step, start)[1]

    return function, (X, Y)


def gathered() -> Program:
    """Rows in an order that is known only at run time, by two look-ups."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = distances(x, y)
        order = tf.argsort(x[:, 0])

        def step(i: tf.Tensor, cost: tf.Tensor) -> Any:
            row = tf.gather(d, order[(7 * i) % 701])
            return i + 1, tf.tanh(relaxed(row, cost))

        start = (tf.constant(0), tf.zeros_like(y[:, 0]))
        return tf.while_loop(lambda i, _: i < 49, step, start)[1]

    return function, (X, Y)


def mapped() -> Program:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        return tf.map_fn(lambda row: tf.reduce_max(row) + tf.sort(row)[5], distances(x, y))

    return function, (X, Y)


def filtered() -> Program:
    """The forward algorithm of a hidden Markov model, in logarithms."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        states = y[:101]
        emitted = tf.nn.log_softmax(-distances(x, states), 1)
        moves = tf.nn.log_softmax(-distances(states, states), 1)

        def step(before: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
            return row + tf.reduce_logsumexp(before[:, None] + moves, 0)

        return tf.reduce_logsumexp(tf.foldl(step, emitted, initializer=moves[0]))

    return function, (X, Y)


def decoded() -> Program:
    """Viterbi: the best states, and the pointers back."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        states = y[:101]
        emitted = -distances(x, states)
        moves = -distances(states, states)

        def step(carry: Any, row: tf.Tensor) -> Any:
            scores = carry[0][:, None] + moves
            return row + tf.reduce_max(scores, 0), tf.cast(tf.argmax(scores, 0), tf.uint8)

        start = emitted[0], tf.zeros([101], tf.uint8)
        best, pointers = tf.scan(step, emitted[1:], initializer=start)
        return best[-1], pointers

    return function, (X, Y)


def python_loop() -> Program:
    """AutoGraph's loop over blocks of three rows of a matrix; it ends early."""

    @tf.function
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = tf.reshape(distances(x[:600], y[:400]), [200, 3, 400])
        cost = tf.zeros_like(y[:400, 0])
        for part in d:
            if tf.cast(tf.reduce_max(cost), tf.int32) > 90:
                break
            cost = relaxed(tf.reduce_sum(part, 0), cost)
        return cost

    return function, (X, Y)


def reversed_slice() -> Program:
    """Every second of some rows, from the last to the first; columns of another matrix."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d, e = distances(x, y), distances(y + 1.0, x)
        start = d[3] + d[-2] + e[:, 7]
        part = tf.reverse(d[5:650], [0])[::2]
        one = tf.foldl(lambda cost, row: relaxed(row, cost), part, initializer=start)
        step = lambda cost, row: relaxed(row, cost)  # noqa: E731
        return one, tf.foldl(step, tf.transpose(e)[-9::-3], initializer=start)

    return function, (X, Y)


def two_axes() -> Program:
    """Rows of a slice that names both axes."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = distances(x, y)[1:-1, :]
        return tf.foldl(lambda c, row: relaxed(row, c), d, initializer=tf.zeros_like(y[:, 0]))

    return function, (X, Y)


def nested() -> Program:
    """A loop over rows in a loop that does not change them."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = distances(x[:201], y)

        def again(i: tf.Tensor, cost: tf.Tensor) -> Any:
            return i + 1, tf.foldl(lambda c, row: tf.sin(relaxed(row, c)), d, initializer=cost)

        start = (tf.constant(0), tf.zeros_like(y[:, 0]))
        return tf.while_loop(lambda i, _: i < 2, again, start)[1]

    return function, (X, Y)


def with_ellipsis() -> Program:
    """Rows `d[i, ...]` and columns `e[..., i]`."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d, e = distances(x, y), distances(y, x + 1.0)
        step = lambda i, cost: (i + 1, relaxed(d[i, ...], cost) + e[..., i])  # noqa: E731
        start = (tf.constant(0), tf.zeros_like(y[:, 0]))
        return tf.while_loop(lambda i, _: i < 701, step, start)[1]

    return function, (X, Y)


def clipped() -> Program:
    """Clipped gradients of each example: `vectorized_map` makes a loop over L2Loss."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        weights = tf.transpose(y)

        def one(example: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(weights)
                loss = tf.reduce_sum(tf.tanh(example[None] @ weights))
            gradient = tape.gradient(loss, weights)
            return gradient / tf.maximum(tf.linalg.global_norm([gradient]), 1.0)

        return tf.reduce_mean(tf.vectorized_map(one, x), 0)

    return function, (X, Y)


PROGRAMS: dict[str, Callable[[], Program]] = {
    program.__name__: program
    for program in (
        folded, backward, indexed, gathered, mapped, filtered, decoded, python_loop,
        nested, reversed_slice, two_axes, with_ellipsis, clipped,
    )
}  # fmt: skip
