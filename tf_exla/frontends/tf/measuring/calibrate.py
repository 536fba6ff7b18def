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

Step = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

CALLS = 25
SMALL, CACHED, LARGEST = 1 << 10, 1 << 20, 1 << 23  # bytes of tensors that stay in cache
LARGE = 1 << 27  # bytes of a tensor that does not
SIDE = 1000  # rows and columns of a square matrix
CHAIN, LONG = 20, 220  # ops of a call: the difference of two has no overhead of a call
FEW, MANY = 2, 22  # terms of a sum that XLA fuses


def measure_cpu() -> dict[str, float]:
    """Return the rates of the processor, in seconds, by their names."""
    found: dict[str, float] = {}
    compiled, executed = 0.0, 0.0
    for dtype in (tf.float64, tf.float32):
        width = dtype.size
        # In place, a multiplication moves as many bytes as exp, which computes more.
        multiplied = _in_place(tf.square, dtype)
        exponential = _in_place(lambda x: tf.exp(-x), dtype) - multiplied  # without negation
        pointwise = (exponential - multiplied) / (EXP_FLOPS - 1) / (LARGEST // width)
        found[f"pointwise_{width}"] = pointwise
        # Subtractions of small and of large tensors differ only in the number of elements. Each
        # step also slices one number of the result.
        brief, subtracted = (_anew(tf.subtract, size, dtype) for size in (SMALL, CACHED))
        if width == 8:
            element = (subtracted - brief) / ((CACHED - SMALL) // width)
            found["cached_byte"] = (element - pointwise) / (2 * width)
        found["launch"] = brief / 2
        few, many = (
            _seconds(exponentials(terms), numbers(LARGEST // width, dtype)) for terms in (FEW, MANY)
        )
        compiled += (many - few) / (MANY - FEW) / (LARGEST // width)
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


def _in_place(op: Callable[[tf.Tensor], tf.Tensor], dtype: tf.DType) -> float:
    """Return the seconds of one op in a chain of ops on the largest tensor in cache."""
    return _seconds(chain(op, CHAIN), numbers(LARGEST // dtype.size, dtype)) / CHAIN


def _anew(op: Step, size: int, dtype: tf.DType) -> float:
    """Return the seconds of one op on `size` bytes that writes another tensor, as in a chunk."""
    x = numbers(size // dtype.size, dtype)
    long, short = (_seconds(one_by_one(op, length), x) for length in (LONG, CHAIN))
    return (long - short) / (LONG - CHAIN)


def _seconds(function: Callable[..., Any], *arguments: tf.Tensor) -> float:
    """Return the seconds of the fastest of several calls, after one that traces and compiles."""
    function(*arguments)
    spent = []
    for _ in range(CALLS):
        start = time.perf_counter()
        tf.nest.map_structure(lambda x: x.numpy(), function(*arguments))
        spent.append(time.perf_counter() - start)
    return min(spent)


def one_by_one(op: Step, times: int) -> Any:
    """Return a program that runs a step several times, one after the other.

    Each step has the first element of the previous result as an operand.
    """

    def function(x: tf.Tensor) -> tf.Tensor:
        last = x[0]
        for _ in range(times):
            last = op(x, last)[0]
        return last

    return tf.function(function, autograph=False)


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
