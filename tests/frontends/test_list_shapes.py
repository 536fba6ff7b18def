"""What a list of unknown element shape gives has the shape of what was written to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.ir.graph import Graph

ROWS, WIDTH = 7, 5


def mapped(x: tf.Tensor) -> Any:
    return tf.map_fn(lambda row: tf.tanh(row) * 2.0, x)


def nested(x: tf.Tensor) -> Any:
    return tf.map_fn(lambda row: tf.map_fn(tf.sin, row[:, None]), x)


def scanned(x: tf.Tensor) -> Any:
    return tf.scan(lambda a, b: a * 0.5 + b, x)


def chosen(x: tf.Tensor) -> Any:
    return tf.map_fn(lambda row: tf.cond(row[0] > 0.0, lambda: row, lambda: -row), x)


def written(x: tf.Tensor) -> Any:
    """Rows of two lengths: what is read has either."""
    array = tf.TensorArray(x.dtype, 2, infer_shape=False, clear_after_read=False)
    array = array.write(0, x[0]).write(1, x[1, :2])
    return array.read(0), array.read(1)


def gradient(x: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.map_fn(lambda row: tf.exp(-tf.abs(row)), x) ** 2)
    return tape.gradient(loss, x)


# Each with the shapes of its results that are known when it is captured for x [ROWS, WIDTH].
CASES: list[tuple[Callable[[tf.Tensor], Any], list[Any]]] = [
    (mapped, [(ROWS, WIDTH)]),
    (nested, [(ROWS, WIDTH, 1)]),
    (scanned, [(ROWS, WIDTH)]),
    (chosen, [(ROWS, WIDTH)]),
    (written, [(None,), (None,)]),
    (gradient, [(ROWS, WIDTH)]),
]


def captured(program: Callable[[tf.Tensor], Any]) -> tuple[Any, Graph]:
    signature = [tf.TensorSpec([None, None], tf.float64)]
    stock = tf.function(program, input_signature=signature, autograph=False)
    return stock, capture(stock.get_concrete_function(), [tf.TensorShape([ROWS, WIDTH])]).graph


@pytest.mark.parametrize(("program", "shapes"), CASES, ids=[one.__name__ for one, _ in CASES])
def test_shapes(program: Callable[[tf.Tensor], Any], shapes: list[Any]) -> None:
    stock, graph = captured(program)
    assert [tensor.shape for tensor in graph.outputs] == shapes
    x = tf.constant(np.random.default_rng(0).standard_normal((ROWS, WIDTH)))
    expected = tf.nest.flatten(stock(x))
    found = tf.nest.flatten(tf_exla.optimize(stock, 10**8, strict=True)(x))
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, two)
