"""Ragged tensors: an eager call finds the sizes that their rows determine, and plans for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

LIMIT = "8MB"


def ragged(rows: int = 3000, longest: int = 40, dtype: str = "int64") -> tf.RaggedTensor:
    lengths = np.random.default_rng(rows).integers(0, longest, rows)
    values = np.random.default_rng(1).standard_normal(int(lengths.sum())).astype("float32")
    return tf.RaggedTensor.from_row_splits(
        tf.constant(values), tf.constant(np.cumsum([0, *lengths]), dtype)
    )


def squares(r: tf.RaggedTensor) -> tf.Tensor:
    """Padded to the longest row, 39; nothing else bounds it but all 60,000 values."""
    return tf.reduce_sum(tf.square(r.to_tensor()), 1)


def gradient(r: tf.RaggedTensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(r.values)
        loss = tf.reduce_sum(tf.reduce_max(r.to_tensor(-9.0), 1))
    return tf.convert_to_tensor(tape.gradient(loss, r.values))


def nested(r: tf.RaggedTensor) -> tf.Tensor:
    lengths = tf.RaggedTensor.from_row_splits(r, tf.range(0, r.nrows() + 1, 3))
    return tf.reduce_sum(lengths.to_tensor(), [1, 2])


PROGRAMS: Mapping[str, Callable[[tf.RaggedTensor], Any]] = {
    "padded": squares,
    "padded, differentiated": gradient,
    "padded twice": nested,
    "padded to a size": lambda r: tf.reduce_sum(r.to_tensor(shape=[None, 50]), 1),
    "cut to a size": lambda r: tf.reduce_sum(r.to_tensor(shape=[None, 5]), 1),
    "sliced": lambda r: tf.reduce_sum(r[:, :2], 1),
    "last": lambda r: tf.reduce_sum(r[:, -1:], 1),
    "every row but one": lambda r: r[1:, 1:].values,
    "joined": lambda r: tf.reduce_max(tf.concat([r, 2.0 * r], 1), 1),
    "broadcast": lambda r: (r * tf.ones([r.nrows(), 1])).values,
    "gathered by a matrix": lambda r: tf.reduce_sum(
        tf.gather(r[:2], tf.constant([[1, 0, 1], [0, 0, 1]])).to_tensor(), 2
    ),
    "gathered": lambda r: tf.gather(r, [5, 0, 5]).values,
}


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.each_value
def test_rows_decide_sizes(name: str, dtype: str) -> None:
    stock = tf.function(PROGRAMS[name], autograph=False)
    unbounded = "warn" if name == "gathered by a matrix" else "raise"
    optimized = tf_exla.optimize(stock, LIMIT, strict=True, unbounded=unbounded)
    for r in (ragged(dtype=dtype), ragged(300, 7, dtype), ragged(3, 1, dtype)):
        if name == "gathered" and r.nrows() < 6:
            continue
        np.testing.assert_allclose(optimized(r), stock(r), rtol=1e-6)


def peaks(name: str) -> tuple[int, int]:
    optimized = tf_exla.optimize(PROGRAMS[name], "120MB", strict=True)
    r = ragged(30_000, 60)
    measured = tf_exla.measured_peak(optimized, r, fresh=False)
    return int(measured), optimized.report(r).projected_peak


@pytest.mark.parametrize("name", ["padded", "sliced", "joined"])
def test_peaks(name: str) -> None:
    measured, projected = run_fresh(peaks, name)
    assert measured <= projected <= 120_000_000


def test_a_limit_below_what_the_sizes_need_is_a_limit_error() -> None:
    """Once the sizes are known, they have bounds."""
    optimized = tf_exla.optimize(PROGRAMS["joined"], "1.2MB", strict=True)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        optimized(ragged())
    assert info.value.smallest_limit is not None
    with pytest.raises(tf_exla.MemoryLimitError):
        tf_exla.optimize(PROGRAMS["joined"], "3MB", strict=True)(ragged())


def test_the_smallest_limit_is_that_of_the_whole_program_if_parts_need_more() -> None:
    """Between two parts, both ragged tensors exist whole."""
    lengths = tf.fill([4000], 50)
    values = tf.range(200_000, dtype=tf.float64)

    def function(values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        r = tf.RaggedTensor.from_row_lengths(values, lengths)
        largest = tf.reduce_sum(tf.reduce_max(tf.sin(r), 1))
        padded = tf.reduce_sum(tf.cumsum(r.to_tensor(), 1))
        return largest + padded + tf.reduce_sum(tf.concat([r, r * 2.0], 1).values)

    enough = tf_exla.optimize(function, "1GB", strict=True).report(values, lengths).projected_peak
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(function, int(0.8 * enough), strict=True)(values, lengths)
    assert info.value.smallest_limit <= enough
    tf_exla.optimize(function, info.value.smallest_limit, strict=True)(values, lengths)
