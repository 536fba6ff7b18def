"""Measure a processor's rates for the cost model, which takes some seconds, once.

Each rate comes from programs that do little else, as `tf.function`s in TensorFlow's default
settings. The fastest call counts, since other load on the machine makes no call faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_exla.vocabulary.table import EXP_FLOPS

CALLS = 25
SMALL, CACHED = 1 << 17, 1 << 23  # bytes of tensors that stay in cache
LARGE = 1 << 27  # bytes of a tensor that does not
SIDE = 1000  # rows and columns of a square matrix
CHAIN = 20  # ops of a chain on cached tensors
FEW, MANY = 2, 22  # terms of a sum that XLA fuses


def measure_cpu() -> dict[str, float]:
    """Return the rates of the processor, in seconds, by their names."""
    found: dict[str, float] = {}
    compiled, executed = 0.0, 0.0
    for dtype in (tf.float64, tf.float32):
        width = dtype.size
        # Multiplications of small and large tensors differ only in the number of elements. They
        # move as many bytes as exp, which computes more.
        brief, multiplied = (_step(tf.square, size, dtype) for size in (SMALL, CACHED))
        element = (multiplied - brief) / ((CACHED - SMALL) // width)
        exponential = _step(lambda x: tf.exp(-x), CACHED, dtype) - multiplied  # without negation
        pointwise = (exponential - multiplied) / (EXP_FLOPS - 1) / (CACHED // width)
        found[f"pointwise_{width}"] = pointwise
        if width == 8:
            found["cached_byte"] = (element - pointwise) / (2 * width)
        found["launch"] = brief - element * (SMALL // width)
        few, many = (
            _seconds(exponentials(terms), numbers(CACHED // width, dtype)) for terms in (FEW, MANY)
        )
        compiled += (many - few) / (MANY - FEW) / (CACHED // width)
        executed += (EXP_FLOPS + 2) * pointwise  # plus a multiplication and an addition
        matrix = tf.cast(tf.random.stateless_normal([SIDE, SIDE], (0, 0)), dtype)
        product = tf.function(tf.matmul)
        found[f"product_{width}"] = _seconds(product, matrix, matrix) / (2 * SIDE**3)
    found["compiled_pointwise"] = compiled / executed
    # The square is written and then read by the sum. It is not returned: one core copies results.
    large = numbers(LARGE // tf.float64.size, tf.float64)
    summed = tf.function(lambda x: tf.reduce_sum(tf.square(x)), autograph=False)
    found["byte"] = _seconds(summed, large) / (3 * LARGE)
    return found


def numbers(count: int, dtype: tf.DType) -> tf.Tensor:
    """Return numbers between -1 and 0."""
    return -tf.cast(tf.random.stateless_uniform([count], (0, 0)), dtype)


def _step(op: Callable[[tf.Tensor], tf.Tensor], size: int, dtype: tf.DType) -> float:
    """Return the seconds of one op in a chain of ops on `size` bytes."""
    return _seconds(chain(op, CHAIN), numbers(size // dtype.size, dtype)) / CHAIN


def _seconds(function: Callable[..., Any], *arguments: tf.Tensor) -> float:
    """Return the seconds of the fastest of several calls, after one that traces and compiles."""
    function(*arguments)
    spent = []
    for _ in range(CALLS):
        start = time.perf_counter()
        tf.nest.map_structure(lambda x: x.numpy(), function(*arguments))
        spent.append(time.perf_counter() - start)
    return min(spent)


def chain(op: Callable[[tf.Tensor], tf.Tensor], length: int) -> Any:
    """Return a program that repeats an op, mostly in place."""

    def function(x: tf.Tensor) -> tf.Tensor:
        for _ in range(length):
            x = op(x)
        return x

    return tf.function(function, autograph=False)


def exponentials(terms: int) -> Any:
    """Return a program that XLA compiles to one pass: a sum of independent exponentials."""

    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.add_n([tf.exp(x * (1 + 0.01 * k)) for k in range(terms)])

    return tf.function(function, jit_compile=True, autograph=False)
