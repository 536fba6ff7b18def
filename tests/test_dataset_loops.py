"""Loops over datasets inside of functions: planned if all batches have one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

ROWS = np.random.default_rng(0).standard_normal((4000, 4))
LIMIT = 6_000_000


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(ROWS).batch(1300, drop_remainder=True)


def energy(rows: tf.Tensor) -> tf.Tensor:
    gaps = tf.reduce_sum(tf.square(rows[:, None] - rows), -1)
    return tf.reduce_mean(tf.exp(-gaps))


def summed(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    total = tf.zeros([], tf.float64)
    for rows in data:
        total += energy(rows)
    return total


def trained(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    last = tf.zeros([], tf.float64)
    for step, rows in data.enumerate():
        with tf.GradientTape() as tape:
            last = energy(scale * rows) * tf.cast(step + 1, tf.float64)
        scale.assign_sub(0.1 * tape.gradient(last, scale))
    return last, scale.read_value()


def stopped(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    count = 0
    for rows in data:
        if rows[0, 0] > 10.0:
            continue
        scale.assign_add(energy(rows))
        count += 1
        if count == 2:
            break
    return count, scale.read_value()


def nested(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    total = tf.zeros([], tf.float64)
    for rows in data.take(2):
        for others in data.take(1):
            total += energy(rows - others)
    return total


def zipped(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    total = tf.zeros([4], tf.float64)
    for rows, others in zip(data, data.skip(1)):  # noqa: B905
        total += tf.reduce_mean(rows, 0) * energy(others)
    return total


def empty(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    total = tf.ones([], tf.float64)
    for rows in data.take(0):
        total += energy(rows)
    return total


LOOPS = (summed, trained, stopped, nested, zipped, empty)


@pytest.mark.filterwarnings("error::tf_exla.UnboundedMemoryWarning")
@pytest.mark.parametrize("function", LOOPS)
def test_bodies_are_planned(function: Callable[..., Any]) -> None:
    results = []
    for call in (tf_exla.optimize(function, LIMIT, strict=True), tf.function(function)):
        scale = tf.Variable(1.0, dtype=tf.float64)
        results.append([call(batches(), scale) for _ in range(2)])
    for new, old in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-10)


def growing(data: tf.data.Dataset) -> tf.Tensor:
    """A While refuses a variable whose shape changes; a dataset does not."""
    seen = tf.zeros([0], tf.float64)
    for rows in data:
        seen = tf.concat([seen, rows[:1, 0]], 0)
    return seen


def open_batches(data: tf.data.Dataset) -> tf.Tensor:
    total = tf.zeros([], tf.float64)
    for rows in data.unbatch().batch(1300):
        total += energy(rows)
    return total


@pytest.mark.parametrize("function", [growing, open_batches])
def test_other_loops_run_as_they_were_and_say_so(function: Callable[..., Any]) -> None:
    optimized = tf_exla.optimize(function, LIMIT, strict=True, unbounded="warn")
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="ScanDataset"):
        value = optimized(batches())
    np.testing.assert_allclose(value, tf.function(function)(batches()), rtol=1e-10)


def measure(name: str) -> tuple[int, int, int]:
    scale, data = tf.Variable(1.0, dtype=tf.float64), batches()
    optimized = tf_exla.optimize(globals()[name], LIMIT)
    measured = int(tf_exla.measured_peak(optimized, data, scale, fresh=False))
    report = optimized.report(data, scale)
    return report.projected_peak_before, report.projected_peak, measured


@pytest.mark.parametrize("function", [summed, trained])
def test_measured_peaks(function: Callable[..., Any]) -> None:
    before, projected, measured = run_fresh(measure, function.__name__)
    assert measured <= projected <= LIMIT < before
