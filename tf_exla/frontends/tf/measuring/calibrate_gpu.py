"""Measure a GPU's rates for the cost model, which takes half a minute, once.

Each rate is the median of repeated calls of programs that do little else, with the device
synchronized after each call. A GPU's clock changes with its load, so the fastest call is no better
than others. The seconds of a small op are the difference of a long and a short chain, which cancels
the cost of the call itself. From those of a large op, those of an almost empty call are subtracted.

Three rates are not measured. A While with a small body takes 20 µs for an iteration on an H100, but
plans take some 350 µs (docs/gpu.md). A cluster without products compiles in 0.2 s, but those of
plans take seconds, since XLA tries several kernels for each product. What a top-k by groups takes
beside its bytes was fitted to plans.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.measuring.calibrate import chain, exponentials, numbers
from tf_exla.model.gpu_rates import following
from tf_exla.vocabulary.table import EXP_FLOPS

Op = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements.

    `repeats`: calls whose median counts. `large`: bytes of a tensor that no cache holds. `side`:
    rows and columns of a square matrix. `columns`: of a right-hand side. `rows`, `row`: number and
    length of the rows of a top-k of ten. `short`, `long`: ops of a chain.
    """

    repeats: int = 11
    large: int = 1 << 28
    side: int = 4096
    columns: int = 50_000
    rows: int = 1000
    row: int = 100_000
    short: int = 10
    long: int = 110


SMALL, SHORT_AXIS, FACTOR = 256, 10, 1000  # elements; indices; rows of a triangular matrix


def measure_gpu(sizes: Sizes | None = None) -> dict[str, float]:
    """Return the rates of the device that ops run on, in seconds, by their names.

    Computation that is hidden behind memory accesses measures as zero or negative. Such a rate is
    not plausible, and the usual one is kept.
    """
    sizes = sizes or Sizes()
    small = numbers(SMALL, tf.float32)
    call = _seconds(chain(tf.square, 1), sizes, small)
    compiled = tf.function(lambda x: tf.reduce_sum(tf.exp(x)) + x, jit_compile=True)
    found = {"launch": _step(tf.square, small, sizes), "cluster": _step(compiled, small, sizes)}
    found.update(_memory_and_pointwise(sizes))
    found.update(_products(sizes, call))
    found.update(_rows(sizes, call, found["byte"]))
    found.update(following(found["byte"]))
    return found


def _memory_and_pointwise(sizes: Sizes) -> dict[str, float]:
    """Measure the rates of memory, of pointwise ops, and of pointwise ops that XLA fuses.

    Squares move memory. The additional time of exp is that of its arithmetic.
    """
    found: dict[str, float] = {}
    compiled = executed = 0.0
    for dtype in (tf.float64, tf.float32):
        x = numbers(sizes.large // dtype.size, dtype)
        moved = _step(tf.square, x, sizes, few=True)
        computed = _step(lambda x: tf.exp(-x), x, sizes, few=True) - moved  # without the negation
        pointwise = (computed - moved) / (EXP_FLOPS - 1) / x.shape[0]
        found[f"pointwise_{dtype.size}"] = pointwise
        if dtype == tf.float64:
            found["byte"] = moved / (2 * sizes.large)
        some, many = (_seconds(exponentials(terms), sizes, x) for terms in (2, 22))
        compiled += (many - some) / 20 / x.shape[0]
        executed += (EXP_FLOPS + 2) * pointwise  # plus a multiplication and an addition
    found["compiled_pointwise"] = compiled / executed if executed > 0 else 0.0
    return found


def _products(sizes: Sizes, call: float) -> dict[str, float]:
    """Measure products in full precision and as TF32, and solves as multiples of a product."""
    found: dict[str, float] = {}
    flops = 2 * sizes.side**3
    product = tf.function(tf.matmul, autograph=False)
    for name, dtype, rounded in (
        ("product_8", tf.float64, False),
        ("product_4", tf.float32, False),
        ("product_tf32", tf.float32, True),
    ):
        matrix = tf.reshape(numbers(sizes.side**2, dtype), [sizes.side, sizes.side])
        with _tf32(rounded):
            found[name] = (_seconds(product, sizes, matrix, matrix) - call) / flops
    lower = tf.eye(FACTOR, dtype=tf.float64) + tf.linalg.band_part(
        tf.fill([FACTOR, FACTOR], tf.constant(1e-3, tf.float64)), -1, 0
    )
    right = tf.reshape(numbers(FACTOR * sizes.columns, tf.float64), [FACTOR, sizes.columns])
    solve = tf.function(tf.linalg.triangular_solve, autograph=False)
    seconds = _seconds(solve, sizes, lower, right) - call
    found["serial"] = seconds / (FACTOR**2 * sizes.columns) / found["product_8"]
    return found


def _rows(sizes: Sizes, call: float, byte: float) -> dict[str, float]:
    """Measure the top k of rows, and sums along a short axis without their bytes.

    One row of a top-k takes as long as some dozens. The model divides the rows between two threads,
    so the rate of their elements is doubled.
    """
    data = tf.reshape(numbers(sizes.rows * sizes.row, tf.float32), [sizes.rows, sizes.row])
    best = tf.function(lambda x: tf.math.top_k(x, 10)[0], autograph=False)
    one, all_rows = (_seconds(best, sizes, part) for part in (data[:1], data))
    column = max(one - call, 0.0) / sizes.row
    top_k = 2 * max(all_rows - one, 0.0) / ((sizes.rows - 1) * sizes.row)
    count = sizes.large // 4 // SHORT_AXIS * SHORT_AXIS
    short = tf.reshape(numbers(count, tf.float32), [-1, SHORT_AXIS])
    summed = tf.function(lambda x: tf.reduce_sum(x, 1), autograph=False)
    more = _seconds(summed, sizes, short) - call - byte * (4 * count + 4 * count // SHORT_AXIS)
    # Distances handle four tensors of the summed tensor's size, each counted by half.
    short_axis = more / count / 2
    rates = {"top_k_column": column, "top_k_element": top_k, "top_k_best": top_k}
    return {**rates, "short_axis_element": short_axis}


def _step(op: Op, x: tf.Tensor, sizes: Sizes, few: bool = False) -> float:
    """Return the seconds of one op in a chain; `few`: a tenth of the ops, for large tensors."""
    part = 10 if few else 1
    lengths = [max(1, sizes.short // part), max(2, sizes.long // part)]
    short, long = (_seconds(chain(op, length), sizes, x) for length in lengths)
    return (long - short) / (lengths[1] - lengths[0])


def _seconds(function: Callable[..., Any], sizes: Sizes, *arguments: tf.Tensor) -> float:
    """Return the median of several synchronized calls, after one that traces and compiles."""
    function(*arguments)
    tf.test.experimental.sync_devices()
    spent = []
    for _ in range(sizes.repeats):
        start = time.perf_counter()
        function(*arguments)
        tf.test.experimental.sync_devices()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


@contextmanager
def _tf32(on: bool) -> Iterator[None]:
    """Enable or disable TF32 for products of float32 within the context."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(on)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
