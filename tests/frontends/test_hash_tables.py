"""Ops that find distinct elements: their hash tables take more than their operands and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

RNG = np.random.default_rng(0)


def numbers(count: int, dtype: str) -> tf.Tensor:
    return tf.constant(RNG.integers(0, 10**9, count), tf.as_dtype(dtype))


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[tf.Tensor, ...]]]] = {
    "int32": (tf.unique, lambda: (numbers(700_000, "int32"),)),
    "int64": (tf.unique_with_counts, lambda: (numbers(1 << 19, "int64"),)),
    "float32": (tf.unique, lambda: (numbers(500_000, "float32"),)),
    "float64": (tf.unique, lambda: (numbers(300_000, "float64"),)),
    "strings": (tf.unique, lambda: (tf.strings.as_string(numbers(200_000, "int32")),)),
    "rows": (
        lambda x: tf.raw_ops.UniqueV2(x=x, axis=[0]),
        lambda: (tf.reshape(numbers(600_000, "int32"), [-1, 3]),),
    ),
    "masked": (
        lambda x: tf.unique(tf.boolean_mask(x, x > 1000)),
        lambda: (numbers(700_000, "int32"),),
    ),
    "difference": (
        lambda x, y: tf.raw_ops.ListDiff(x=x, y=y),
        lambda: (numbers(10**6, "int32"), numbers(700_000, "int32")),
    ),
    "difference of floats": (
        lambda x, y: tf.raw_ops.ListDiff(x=x, y=y),
        lambda: (numbers(10**6, "float64"), numbers(700_000, "float64")),
    ),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CASES)
def test_peak(name: str) -> None:
    measured, projected = run_fresh(measure, name)
    assert measured <= projected


def measure(name: str) -> tuple[int, int]:
    function, data = CASES[name]
    arguments = data()
    optimized = tf_exla.optimize(tf.function(function), "1GB", strict=True)
    optimized(*arguments)
    measured = tf_exla.measured_peak(optimized, *arguments, fresh=False)
    return int(measured), optimized.report(*arguments).projected_peak
