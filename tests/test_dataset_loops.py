"""Loops over datasets inside of functions: an eager call plans their bodies."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.frontends.tf.dataset_loops import DatasetLoop

ROWS = np.random.default_rng(0).standard_normal((4000, 4))
LIMIT = 6_000_000


def batches(smaller: bool = False) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(ROWS).batch(1300, drop_remainder=not smaller)


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


def growing(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    """A While refuses a variable whose shape changes; a dataset does not."""
    seen = tf.zeros([0], tf.float64)
    for rows in data:
        seen = tf.concat([seen, rows[:1, 0]], 0)
    return seen * energy(seen[:, None])


def two_loops(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    for rows in data:
        scale.assign_add(energy(rows))
    first = scale.read_value()
    for rows in data.take(2):
        scale.assign(scale * energy(first * rows))
    return first, scale.read_value()


def reduced(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    def step(state: Any, rows: tf.Tensor) -> Any:
        count, total = state
        return count + 1, total + scale * energy(rows)

    return data.reduce((0, tf.zeros([], tf.float64)), step)


def built_inside(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    rows = tf.cast(tf.range(3000), tf.float64)[:, None] / 1000
    total = tf.zeros([], tf.float64)
    for part in tf.data.Dataset.from_tensor_slices(rows * scale).batch(1100):
        total += energy(part)
    return total


def structured(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    total = tf.zeros([], tf.float64)
    pairs = data.map(lambda rows: {"x": rows, "y": (rows[:, 0], tf.strings.as_string(rows[0, 0]))})
    text = tf.constant("")
    for pair in pairs:
        total += energy(pair["x"]) * tf.reduce_sum(pair["y"][0])
        text = tf.strings.join([text, pair["y"][1]])
    return total, text


def sparse(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    total = tf.zeros([4, 4], tf.float64)
    for rows in data.map(tf.sparse.from_dense):
        total += tf.sparse.sparse_dense_matmul(rows, tf.sparse.to_dense(rows), adjoint_a=True)
    return total


def seeded(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    """A dataset begins its random numbers anew in each loop."""
    total = tf.zeros([], tf.float64)
    for rows in data:
        noise = tf.random.normal(tf.shape(rows), seed=3, dtype=tf.float64)
        total += energy(rows + noise)
    return total


def seeded_in_a_branch(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    """A kernel has the state: one for all sizes."""
    total = tf.zeros([], tf.float64)
    for rows in data:
        if total >= 0:
            total += energy(rows) * tf.random.uniform([], seed=4, dtype=tf.float64)
    return total


LOOPS = (
    summed, trained, stopped, nested, zipped, empty, growing, two_loops, reduced, built_inside,
    structured, sparse, seeded, seeded_in_a_branch,
)  # fmt: skip


@pytest.mark.parametrize("smaller", [False, True], ids=["whole", "smaller last batch"])
@pytest.mark.parametrize("function", LOOPS)
def test_bodies_are_planned(function: Callable[..., Any], smaller: bool) -> None:
    if smaller and function is zipped:
        function = summed
    results = []
    with warnings.catch_warnings():
        action = "ignore" if function is seeded_in_a_branch and smaller else "error"
        warnings.simplefilter(action, tf_exla.UnboundedMemoryWarning)
        for call in (tf_exla.optimize(function, LIMIT, strict=True), tf.function(function)):
            tf.random.set_seed(1)
            scale = tf.Variable(1.0, dtype=tf.float64)
            results.append([call(batches(smaller), scale) for _ in range(2)])
    for new, old in zip(*map(tf.nest.flatten, results), strict=True):
        if new.dtype == tf.string:
            assert new == old
        else:
            np.testing.assert_allclose(new, old, rtol=1e-10)


@pytest.mark.parametrize("function", [summed, trained])
def test_a_body_above_the_limit_is_refused_before_it_runs(function: Callable[..., Any]) -> None:
    scale = tf.Variable(1.0, dtype=tf.float64)
    optimized = tf_exla.optimize(function, 1_100_000)
    with pytest.raises(tf_exla.MemoryLimitError, match="loop of") as caught:
        optimized(batches(), scale)
    assert scale.numpy() == 1.0
    again = tf_exla.optimize(function, caught.value.smallest_limit)
    np.testing.assert_allclose(
        tf.nest.flatten(again(batches(), scale))[0],
        tf.nest.flatten(tf.function(function)(batches(), tf.Variable(1.0, dtype=tf.float64)))[0],
        rtol=1e-10,
    )


def test_a_loop_that_fits_is_left_to_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small steps take a quarter of the time there."""
    monkeypatch.setattr(DatasetLoop, "run", lambda *_: pytest.fail("it is run step by step"))
    scale = tf.Variable(1.0, dtype=tf.float64)
    for function in (summed, trained, stopped, seeded):
        tf.random.set_seed(1)
        values = tf_exla.optimize(function, 10**9, strict=True)(batches(), scale)
        scale.assign(1.0)
        tf.random.set_seed(1)
        wanted = tf.function(function)(batches(), scale)
        scale.assign(1.0)
        for new, old in zip(*map(tf.nest.flatten, (values, wanted)), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-10)


def test_what_exists_beside_the_loop_counts() -> None:
    def beside(data: tf.data.Dataset, other: tf.Tensor) -> tf.Tensor:
        doubled = 2 * other
        total = tf.zeros([], tf.float64)
        for rows in data:
            total += energy(rows)
        return total + tf.reduce_sum(tf.cumsum(doubled))

    other = tf.ones([200_000], tf.float64)  # 1.6 MB
    smallest = []
    for value in (other, other[:1000]):
        with pytest.raises(tf_exla.MemoryLimitError) as caught:
            tf_exla.optimize(beside, 10_000)(batches(), value)
        assert caught.value.smallest_limit is not None
        smallest.append(caught.value.resident)
    assert smallest[0] - smallest[1] >= 199_000 * 8


def test_results_have_no_gradient() -> None:
    scale = tf.Variable(2.0, dtype=tf.float64)
    optimized = tf_exla.optimize(summed, LIMIT, strict=True)
    with tf.GradientTape() as tape:
        value = optimized(batches(), scale) * scale
    np.testing.assert_allclose(tape.gradient(value, scale), value / scale)


def test_the_report_is_of_the_body() -> None:
    scale = tf.Variable(1.0, dtype=tf.float64)
    for smaller in (False, True):
        optimized = tf_exla.optimize(summed, LIMIT, strict=True)
        if smaller:
            optimized(batches(True), scale)
        report = optimized.report(batches(smaller), scale)
        assert report.projected_peak <= LIMIT < report.projected_peak_before


def test_loops_in_other_graphs_run_as_they_were_and_say_so() -> None:
    inner = tf_exla.optimize(summed, LIMIT, strict=True, unbounded="warn")
    scale = tf.Variable(1.0, dtype=tf.float64)
    called = tf.function(lambda data: inner(data, scale))
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="loop over a dataset"):
        value = called(batches())
    np.testing.assert_allclose(value, tf.function(summed)(batches(), scale), rtol=1e-10)


def measure(name: str) -> tuple[int, int, int]:
    scale, data = tf.Variable(1.0, dtype=tf.float64), batches(smaller=True)
    optimized = tf_exla.optimize(globals()[name], LIMIT)
    measured = int(tf_exla.measured_peak(optimized, data, scale, fresh=False))
    report = optimized.report(data, scale)
    return report.projected_peak_before, report.projected_peak, measured


@pytest.mark.parametrize("function", [summed, trained, two_loops])
def test_measured_peaks(function: Callable[..., Any]) -> None:
    before, projected, measured = run_fresh(measure, function.__name__)
    assert measured <= projected <= LIMIT < before
