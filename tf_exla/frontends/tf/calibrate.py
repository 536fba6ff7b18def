"""Measure what the cost model asks of a processor: some seconds, once.

Each rate comes from programs that do little else, as `tf.function`s in TensorFlow's default
settings; the fastest call counts, since what else runs on the machine makes none faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_exla.vocabulary.table import EXP_FLOPS

CALLS = 25
SMALL, CACHED = 1 << 17, 1 << 23  # bytes of tensors that stay in cache
LARGE = 1 << 27  # bytes of one that does not
SIDE = 1000  # of a square matrix
CHAIN = 20  # ops of a chain on cached tensors
FEW, MANY = 2, 22  # terms of a sum that XLA fuses


def measure_cpu() -> dict[str, float]:
    """Return the rates of the processor, in seconds, by their names."""
    found: dict[str, float] = {}
    compiled, executed = 0.0, 0.0
    for dtype in (tf.float64, tf.float32):
        width = dtype.size
        # Small and large, a multiplication differs in its elements alone, and it moves as many
        # bytes as exp, which computes more.
        brief, multiplied = (_step(tf.square, size, dtype) for size in (SMALL, CACHED))
        element = (multiplied - brief) / ((CACHED - SMALL) // width)
        exponential = _step(lambda x: tf.exp(-x), CACHED, dtype) - multiplied  # less the sign
        pointwise = (exponential - multiplied) / (EXP_FLOPS - 1) / (CACHED // width)
        found[f"pointwise_{width}"] = pointwise
        if width == 8:
            found["cached_byte"] = (element - pointwise) / (2 * width)
        found["launch"] = brief - element * (SMALL // width)
        few, many = (
            _seconds(exponentials(terms), _numbers(CACHED, dtype)) for terms in (FEW, MANY)
        )
        compiled += (many - few) / (MANY - FEW) / (CACHED // width)
        executed += (EXP_FLOPS + 2) * pointwise  # a multiplication and an addition beside
        matrix = tf.cast(tf.random.stateless_normal([SIDE, SIDE], (0, 0)), dtype)
        product = tf.function(tf.matmul)
        found[f"product_{width}"] = _seconds(product, matrix, matrix) / (2 * SIDE**3)
    found["compiled_pointwise"] = compiled / executed
    # A square is written, and read again by its sum: what a program returns is copied by one core.
    large = _numbers(LARGE, tf.float64)
    summed = tf.function(lambda x: tf.reduce_sum(tf.square(x)), autograph=False)
    found["byte"] = _seconds(summed, large) / (3 * LARGE)
    return found


def _numbers(size: int, dtype: tf.DType) -> tf.Tensor:
    """Return `size` bytes of numbers between -1 and 0."""
    return -tf.cast(tf.random.stateless_uniform([size // dtype.size], (0, 0)), dtype)


def _step(op: Callable[[tf.Tensor], tf.Tensor], size: int, dtype: tf.DType) -> float:
    """Return the seconds of one of a chain of ops on `size` bytes."""
    return _seconds(_chain(op), _numbers(size, dtype)) / CHAIN


def _seconds(function: Callable[..., Any], *arguments: tf.Tensor) -> float:
    """Return the fastest of several calls, after one that traces and compiles."""
    function(*arguments)
    spent = []
    for _ in range(CALLS):
        start = time.perf_counter()
        tf.nest.map_structure(lambda x: x.numpy(), function(*arguments))
        spent.append(time.perf_counter() - start)
    return min(spent)


def _chain(op: Callable[[tf.Tensor], tf.Tensor]) -> Any:
    """Return a program that runs the op again and again; most find room in place."""

    def function(x: tf.Tensor) -> tf.Tensor:
        for _ in range(CHAIN):
            x = op(x)
        return x

    return tf.function(function, autograph=False)


def exponentials(terms: int) -> Any:
    """Return exponentials that do not wait for each other, in one pass."""

    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.add_n([tf.exp(x * (1 + 0.01 * k)) for k in range(terms)])

    return tf.function(function, jit_compile=True, autograph=False)
