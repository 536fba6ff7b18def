"""Loops that carry a batch: those that work on each row independently, and those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from programs import normal, rbf, with_gradients

Program = tuple[Callable[..., Any], Sequence[Any]]
T, B, D, H = 10, 331, 3, 16
X, W, U = normal(T, B, D), 0.3 * normal(D, H), 0.3 * normal(H, H)


def cell(h: tf.Tensor, x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    return tf.tanh(tf.matmul(x, w) + tf.matmul(h, u))


def zeros(*shape: int) -> tf.Tensor:
    return tf.zeros(shape, X.dtype)


def scanned(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda h, row: cell(h, row, w, u), x, initializer=zeros(B, H))


def last(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(scanned(x, w, u)[-1]))


def every(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.sin(scanned(x, w, u)))


def added_up(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """A variable to which each iteration adds a sum over the rows."""

    def step(i: tf.Tensor, h: tf.Tensor, total: tf.Tensor, most: tf.Tensor) -> Any:
        h = cell(h, x[i], w, u)
        return i + 1, h, total - tf.reduce_sum(tf.square(h), 0), tf.maximum(most, h)

    start = (tf.constant(0), zeros(B, H), zeros(H), zeros(B, H))
    _, _, total, most = tf.while_loop(lambda i, *_: i < T, step, start)
    return tf.reduce_sum(tf.square(total)) + tf.reduce_sum(most)


def nested(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    def step(h: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        inner = lambda j, h: (j + 1, cell(h, row, w, u))  # noqa: E731
        return tf.while_loop(lambda j, h: j < 3, inner, (tf.constant(0), h))[1]

    return tf.reduce_sum(tf.scan(step, x[:7], initializer=zeros(B, H))[-1])


def mapped(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """Rows are the second axis of the stacked results of the iterations."""
    points = tf.reshape(x, [-1, D])[:1103]
    k = tf.map_fn(lambda p: rbf(points * p, tf.transpose(w)), 1.0 + tf.square(u[:5, :1]))
    mean = tf.einsum("lnm,lm->nl", k, u[:5])
    return tf.reduce_sum(tf.sin(mean) * tf.reduce_sum(points, 1, keepdims=True))


def network(layers: Sequence[Any], length: int = T) -> Any:
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1, dtype="float64")])
    model.build((None, length, D))
    return model


def keras(*layers: Any, length: int = T) -> Program:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        return loss, tape.gradient(loss, model.trainable_variables)

    model = network(layers, length)
    return function, (normal(B, length, D), normal(B, 1))


def trained(*layers: Any) -> Program:
    """A gradient descent step from fixed weights: variables are written before and after."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        for variable, value in zip(model.trainable_variables, start, strict=True):
            variable.assign(value)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss, [tf.convert_to_tensor(variable) for variable in model.trainable_variables]

    model = network(layers)
    start = [variable.numpy() for variable in model.trainable_variables]
    return function, (normal(B, T, D), normal(B, 1))


def recurrent(kind: str, units: int = H, **options: Any) -> Any:
    if kind != "SimpleRNN":
        options["use_cudnn"] = False
    return getattr(tf.keras.layers, kind)(units, dtype="float64", **options)


def bidirectional() -> Any:
    return tf.keras.layers.Bidirectional(recurrent("LSTM", 8), dtype="float64")


ARGUMENTS = (X, W, U)
SPLIT: dict[str, Callable[[], Program]] = {
    "last": lambda: (last, ARGUMENTS),
    "last-gradient": lambda: (with_gradients(last), ARGUMENTS),
    "every-gradient": lambda: (with_gradients(every), ARGUMENTS),
    "added-up": lambda: (added_up, ARGUMENTS),
    "added-up-gradient": lambda: (with_gradients(added_up), ARGUMENTS),
    "nested": lambda: (nested, ARGUMENTS),
    "simple": lambda: keras(recurrent("SimpleRNN")),
    "lstm": lambda: keras(recurrent("LSTM")),
    "gru": lambda: keras(recurrent("GRU")),
    "two-layers": lambda: keras(recurrent("LSTM", return_sequences=True), recurrent("GRU")),
    "both-ways": lambda: keras(bidirectional()),
    "trained": lambda: trained(recurrent("GRU", return_sequences=True), recurrent("LSTM")),
    "masked": lambda: keras(tf.keras.layers.Masking(), recurrent("LSTM")),
}
"""Loops that work on each row independently."""


def repeated(step: Callable[..., Any], **changes: Any) -> Callable[..., Any]:
    """Return a loop of 5 iterations on rows h [B, H] and a scalar that starts from `total`."""

    def function(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> Any:
        h = cell(zeros(B, H), x[0], w, u)
        start = (tf.constant(0), h, tf.constant(changes.get("total", 0.0), h.dtype))
        more = changes.get("more", lambda i, h, total: i < 5)
        body = lambda i, h, total: (i + 1, *step(h, total))  # noqa: E731
        _, h, total = tf.while_loop(more, body, start, maximum_iterations=5)
        return tf.reduce_sum(tf.square(h)) + total

    return function


def mean_of_rows(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h - tf.reduce_mean(h, 0)), total


def largest(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h), tf.maximum(total, tf.reduce_max(h))


def squared(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h), tf.square(total) + tf.reduce_mean(h)


def summed(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h), total + tf.reduce_sum(h)


def shared(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h + 1e-3 * total), total + tf.reduce_sum(h)


def crossed(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.tanh(tf.matmul(tf.matmul(h, h, transpose_b=True), h) / B), total


def reversed_rows(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h[::-1]), total


def numbered(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h) * tf.constant(np.arange(B)[:, None] / B), total


def one_number(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h) * tf.constant(np.full([B, 1], 0.5)), total + tf.reduce_sum(h)


def replaced(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h), tf.reduce_sum(h)


def chosen(h: tf.Tensor, total: tf.Tensor) -> Any:
    return tf.sin(h) + tf.gather(h, tf.argmax(h[:, 0])), total


def ties(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """Maxima over rows that occur twice; their gradients compare."""
    rows = scanned(tf.concat([x[:, :166], x[:, :165]], 1), w, u)
    return tf.reduce_sum(tf.reduce_max(rows[-1], 0)) + tf.reduce_sum(tf.reduce_max(rows, 2))


def twice(x: tf.Tensor, w: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """A gradient that is differentiated: lists are read more than once."""
    with tf.GradientTape() as tape:
        tape.watch([w, u])
        value = every(x, w, u)
    return tf.add_n([tf.reduce_sum(tf.square(one)) for one in tape.gradient(value, [w, u])])


WHOLE: dict[str, Callable[..., Any]] = {
    "condition": repeated(summed, more=lambda i, h, total: tf.reduce_any(h > 0.9)),
    "condition-on-sum": repeated(summed, more=lambda i, h, total: total < 1e3),
    "mean": repeated(mean_of_rows),
    "largest": repeated(largest),
    "squared": repeated(squared),
    "not-from-zero": repeated(summed, total=3.0),
    "shared": repeated(shared),
    "crossed": repeated(crossed),
    "reversed": repeated(reversed_rows),
    "numbered": repeated(numbered),
    "one-number": repeated(one_number),
    "replaced": repeated(replaced),
    "chosen": repeated(chosen),
    "ties": ties,
    "twice": twice,
}
"""Loops in which rows meet, or that start from a value that is no sum over them."""
