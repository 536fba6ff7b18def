"""Selections return the stock's bits: of NaN, infinities, ties and zeros of both signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from programs_check import limits_of
from samples import but

import tf_exla
from tf_exla.ir.graph import Array

Rng = np.random.Generator
FIRST = 6
"""Columns and rows without a NaN: more than the k of any top-k."""


def ties(rng: Rng, shape: tuple[int, int]) -> Array:
    return rng.integers(-3, 4, shape).astype(float)


def zeros(rng: Rng, shape: tuple[int, int]) -> Array:
    return np.where(rng.random(shape) < 0.5, 0.0, -0.0)


def infinite(rng: Rng, shape: tuple[int, int]) -> Array:
    return np.where(rng.random(shape) < 0.5, ties(rng, shape), rng.choice([np.inf, -np.inf], shape))


def ascending(rng: Rng, shape: tuple[int, int]) -> Array:
    """The largest come last, along either axis."""
    return np.add(*np.indices(shape)) // 3 + ties(rng, shape)


def some_nan(rng: Rng, shape: tuple[int, int]) -> Array:
    values = np.where(rng.random(shape) < 0.3, np.nan, ascending(rng, shape))
    values[:FIRST] = values[:, :FIRST] = -9.0
    return values


def nan_columns(rng: Rng, shape: tuple[int, int]) -> Array:
    """Points that are not numbers."""
    values = -ascending(rng, shape)
    values[:, FIRST::7] = values[FIRST::7] = np.nan
    return values


def all_nan(rng: Rng, shape: tuple[int, int]) -> Array:
    return np.full(shape, np.nan)


def nan_anywhere(rng: Rng, shape: tuple[int, int]) -> Array:
    return np.where(rng.random(shape) < 0.3, np.nan, infinite(rng, shape))


FILLS = [ties, zeros, infinite, ascending, some_nan, nan_columns, all_nan]


def segments(reduce: Callable[..., tf.Tensor], *count: int) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda z: reduce(z, tf.range(z.shape[0]) // (z.shape[0] // 6), *count)


TOPS: dict[str, Callable[[tf.Tensor], Any]] = {
    "top k": lambda z: tf.math.top_k(z, 5),
    "top k of columns": lambda z: tf.math.top_k(tf.transpose(z), 5),
}
ANY_NAN: dict[str, Callable[[tf.Tensor], Any]] = {
    "sort": lambda z: tf.sort(z, 1),
    "sort columns": lambda z: tf.sort(z, 0, direction="DESCENDING")[::50],
    "argsort": lambda z: tf.argsort(z, 1, stable=True),
    "argmax": lambda z: (tf.argmax(z, 0), tf.argmax(z, 1)),
    "argmin": lambda z: (tf.argmin(z, 0), tf.argmin(z, 1)),
    "unique": lambda z: tf.unique(tf.argmax(z, 1)),
    "counts": lambda z: (tf.reduce_any(z > 0, 0), tf.math.count_nonzero(z, 1)),
    "in top k": lambda z: tf.math.in_top_k(tf.range(z.shape[0]) % z.shape[1], z, 3),
}
SIGNS: dict[str, Callable[[tf.Tensor], Any]] = {
    "max": lambda z: (tf.reduce_max(z, 0), tf.reduce_max(z, 1), tf.reduce_max(z)),
    "min": lambda z: (tf.reduce_min(z, 0), tf.reduce_min(z, 1), tf.reduce_min(z)),
    "maximum": lambda z: tf.maximum(z[:, 1:], z[:, :-1])[:, ::9],
    "minimum": lambda z: tf.minimum(z[1:], -z[:-1])[::9],
    "relu": lambda z: tf.nn.relu(z)[::9],
    "max pool": lambda z: tf.nn.max_pool2d(z[None, :, :, None], 3, 3, "VALID"),
}
"""Whose kernels return a zero of either sign, by the place in a row."""
NO_NAN = {
    "histogram": lambda z: tf.histogram_fixed_width(z, [-2.0, 2.0], 10),
    "segment max": segments(tf.math.segment_max),
    "segment min": segments(tf.math.segment_min),
    "unsorted segment max": segments(tf.math.unsorted_segment_max, 9),
    "unsorted segment min": segments(tf.math.unsorted_segment_min, 9),
}
"""Whose kernels keep or forget a NaN by the place in a row, or refuse it."""


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", but(["sort columns"], [*TOPS, *ANY_NAN, *SIGNS, *NO_NAN]))
def test_the_stocks_own_bits(name: str) -> None:
    """At the smallest limit and above, along either axis."""
    function = {**TOPS, **ANY_NAN, **SIGNS, **NO_NAN}[name]
    fills = [*FILLS, *([nan_anywhere] if name in ANY_NAN or name in SIGNS else [])]
    if name in NO_NAN:
        fills = [ties, zeros, infinite, ascending]
    for shape in ((9, 3001), (1201, 40)):
        dtypes = ["float32"] if name in ("in top k", "histogram") else ["float32", "bfloat16"]
        for dtype in dtypes[: 1 if shape[0] == 9 and name not in TOPS else 2]:
            check(function, shape, dtype, fills, signs=name not in SIGNS and name not in NO_NAN)


def check(function: Any, shape: tuple[int, int], dtype: str, fills: Any, signs: bool) -> None:
    stock = tf.function(lambda x, y: function(x + y), autograph=False)
    y = tf.constant(np.full(shape[1], -0.0), dtype)  # it changes no number
    smallest, unsplit = limits_of(stock, (tf.zeros(shape, dtype), y), None)
    for limit in {smallest, smallest + (unsplit - smallest) // 6}:
        optimized = tf_exla.optimize(stock, limit)
        for fill in fills:
            x = tf.cast(fill(np.random.default_rng(0), shape), dtype)
            wanted, made = (tf.nest.flatten(one(x, y)) for one in (stock, optimized))
            for one, two in zip(made, wanted, strict=True):
                assert one.dtype == two.dtype
                a, b = (as_numbers(tensor) for tensor in (one, two))
                np.testing.assert_array_equal(a, b, f"{fill.__name__} at {limit:,}")
                if signs and fill is zeros:
                    np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def as_numbers(tensor: tf.Tensor) -> Array:
    return np.asarray(tf.cast(tensor, tf.float64) if tensor.dtype.is_floating else tensor)
