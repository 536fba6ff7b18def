"""Random loops with gradients: states, rows of an operand, arrays written, an early end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import tensorflow as tf

Made = tuple[Callable[..., tf.Tensor], Sequence[tf.Tensor]]

STEPS: Sequence[Callable[..., tf.Tensor]] = (
    lambda h, g, row, w, b: tf.tanh(h @ w + b),
    lambda h, g, row, w, b: h * tf.sigmoid(g),
    lambda h, g, row, w, b: tf.sin(h) + 0.5 * g,
    lambda h, g, row, w, b: tf.exp(-h * h) * g,
    lambda h, g, row, w, b: h + row,
    lambda h, g, row, w, b: tf.reduce_mean(h, 0, keepdims=True) + 0.3 * h,
)


def random_loop(seed: int) -> Made:
    """Return a loss of float64 and its operands: rows of each iteration, a matrix, a vector."""
    rng = Random(seed)
    trips, rows, columns = rng.choice([16, 17, 31]), rng.choice([301, 601]), rng.choice([4, 8])
    count, step = rng.randint(1, 2), rng.choice([1, 1, 2])
    chosen = [(rng.choice(STEPS), rng.randrange(count), rng.randrange(count)) for _ in range(6)]
    written, stops, swapped = (rng.random() < part for part in (0.5, 0.25, 0.3))
    numbers = np.random.default_rng(seed)
    shapes = (trips * step + 1, rows, columns), (columns, columns), (columns,)
    operands = [tf.constant(numbers.normal(size=shape)) for shape in shapes]

    def loss(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        def goes_on(k: tf.Tensor, total: tf.Tensor, first: tf.Tensor, *rest: Any) -> tf.Tensor:
            below = k < trips * step
            return tf.logical_and(below, tf.reduce_max(tf.abs(first)) < 3.0) if stops else below

        def iteration(k: tf.Tensor, total: tf.Tensor, *rest: Any) -> Any:
            states = list(rest[:count])
            for how, i, j in chosen:
                states[i] = how(states[i], states[j], x[k], w, b)
            if swapped:
                states.reverse()
            arrays = [one.write(k // step, states[-1]) for one in rest[count:]]
            return (k + step, total + tf.reduce_sum(states[0]), *states, *arrays)

        shape = [rows, columns]
        array = tf.TensorArray(x.dtype, trips, element_shape=shape)
        states = [tf.zeros(shape, x.dtype) + 0.1 * (one + 1) for one in range(count)]
        first = (tf.constant(0), tf.zeros([], x.dtype), *states, *([array] if written else []))
        _, total, *rest = tf.while_loop(goes_on, iteration, first)
        sums = [tf.reduce_sum(tf.sin(state)) for state in rest[:count]]
        sums += [tf.reduce_sum(one.stack() ** 2) for one in rest[count:]]
        return 0.01 * total + tf.add_n(sums)

    return loss, operands
