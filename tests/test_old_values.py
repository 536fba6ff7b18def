"""A value of a variable that is read after the next assignment stays in memory beside the new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

START = np.random.default_rng(0).random((40_000, 64))
STEP = tf.constant(START * 1e-3)
V = tf.Variable(START)


def used_later(old: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cumsum(tf.sin(old), 0) * tf.cos(V) + old)


def added() -> tf.Tensor:
    old = V.read_value()
    V.assign_add(STEP)
    return used_later(old)


def assigned() -> tf.Tensor:
    old = tf.identity(V)
    V.assign(0.9 * V + STEP)
    return used_later(old)


def one_row() -> tf.Tensor:
    old = V[0]
    V.assign_add(STEP)
    return tf.reduce_sum(tf.cumsum(tf.sin(V), 0), 0) + old


def in_a_loop() -> tf.Tensor:
    total = tf.zeros([], V.dtype)
    for _ in tf.range(3):
        old = V.read_value()
        V.assign_add(STEP)
        total += used_later(old)
    return total


def returned() -> tuple[tf.Tensor, tf.Tensor]:
    old = V.read_value()
    V.assign_sub(STEP)
    return old, tf.reduce_sum(tf.cumsum(V, 0))


def scattered() -> tf.Tensor:
    """TensorFlow copies a variable at each read after a sparse update, for good."""
    V.scatter_nd_add([[0, 1], [2, 3]], tf.ones([2], V.dtype))
    return tf.reduce_sum(V)


def assigned_in_part() -> tf.Tensor:
    V[3:5].assign(tf.zeros([2, 64], V.dtype))
    return tf.reduce_max(tf.sin(V), 0)


def scattered_while_read() -> tf.Tensor:
    old = V.read_value()
    V.scatter_sub(tf.IndexedSlices(tf.ones([2, 64], V.dtype), tf.constant([1, 2])))
    return used_later(old)


def read_after_sparse_updates() -> tf.Tensor:
    return tf.reduce_sum(V) + tf.norm(V)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "program",
    [
        *(added, assigned, one_row, in_a_loop, returned),
        *(scattered, assigned_in_part, scattered_while_read, read_after_sparse_updates),
    ],
)
def test_peak(program: Callable[[], Any]) -> None:
    for limit, projected, measured in run_fresh(measure, program.__name__):
        assert measured <= projected <= limit


def measure(name: str) -> list[tuple[int, int, int]]:
    function = tf.function(globals()[name])
    with pytest.raises(tf_exla.MemoryLimitError) as error:
        tf_exla.explain(function, limit=1)
    V.scatter_nd_add([[0, 0]], [1.0])  # of which each read would be a copy
    found = []
    for limit in (10**9, error.value.smallest_limit):
        optimized = tf_exla.optimize(function, limit, strict=True)
        results = []
        for called in (function, optimized):
            V.assign(START)
            results.append([*tf.nest.flatten(called()), tf.identity(V)])
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), *results)
        del results
        measured = int(tf_exla.measured_peak(optimized, fresh=False))
        found.append((limit, optimized.report().projected_peak, measured))
    return found
