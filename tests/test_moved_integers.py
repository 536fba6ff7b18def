"""Integers that are moved by other integers which only a run tells: nothing of them is folded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

X = tf.constant(np.arange(40.0).reshape(20, 2))
PROGRAMS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "first": lambda n: tf.range(64)[:n],
    "rest": lambda n: tf.constant([3, 1, 4, 1, 5, 9, 2, 6])[n:],
    "in steps": lambda n: tf.range(64)[::n],
    "slice": lambda n: tf.slice(tf.range(64), [n], [n]),
    "gathered": lambda n: tf.gather(2 * tf.range(64), [n, 3]),
    "reshaped": lambda n: tf.reshape(tf.range(12), [n - 1, -1]),
    "concatenated": lambda n: tf.concat([[n], [7, 2]], 0)[1:],
    "embedded": lambda n: tf.gather(X, tf.range(20)[:n]) + X[:n],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_numbers(name: str) -> None:
    function = tf.function(
        lambda keep: PROGRAMS[name](tf.shape(tf.boolean_mask(X, keep))[0]), autograph=False
    )
    optimized = tf_exla.optimize(function, "1GB", strict=True)
    for rows in (3, 5):
        keep = tf.range(20) < rows
        np.testing.assert_array_equal(optimized(keep), function(keep))
