"""Loops over datasets inside of functions: an eager call plans their bodies."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.frontends.tf.cutting.dataset_loops import DatasetLoop

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


@pytest.mark.each_value
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


@pytest.mark.one_of(2)
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


def test_a_loop_with_static_sizes_is_left_to_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small steps take a quarter of the time there."""
    monkeypatch.setattr(DatasetLoop, "run", lambda *_: pytest.fail("it is run step by step"))
    scale = tf.Variable(1.0, dtype=tf.float64)
    for function in (summed, trained, stopped):
        tf.random.set_seed(1)
        values = tf_exla.optimize(function, LIMIT, strict=True)(batches(), scale)
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


def collected(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    """Results in a list, of a length that is not known before."""
    found = tf.TensorArray(tf.float64, size=0, dynamic_size=True, element_shape=[1300, 4])
    for k, rows in data.enumerate():
        found = found.write(tf.cast(k, tf.int32), tf.sin(rows) * scale)
    return tf.reduce_sum(found.stack(), [1, 2])


def carried(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    """A large loop variable: two of it exist, and the first for as long as the caller has it."""
    total = tf.zeros([200_000], tf.float64)
    for rows in data:
        total = tf.sin(total) + rows[0, 0] * scale
    return tf.reduce_sum(tf.cumsum(total))


def two_stages(data: tf.data.Dataset, scale: tf.Variable) -> tf.Tensor:
    first = tf.zeros([100_000], tf.float64)
    sums = data.scan(first, lambda s, x: (s + x[0, 0], tf.reduce_sum(s * x[0, 1])))
    return sums.reduce(first + scale, lambda s, v: s * 0.5 + v)[:3]


def counted(data: tf.data.Dataset, scale: tf.Variable) -> Any:
    """Sizes that follow from the results of a loop, and a loop behind them."""
    count = 0
    for rows in data:
        count += tf.cast(tf.shape(rows)[0] > 0, tf.int32)
    ones = tf.ones([count], tf.float64)
    for rows in data:
        scale.assign_add(energy(rows) * tf.reduce_sum(ones))
    return tf.range(count) * 2, scale.read_value()


@pytest.mark.each_value
@pytest.mark.parametrize("smaller", [False, True])
@pytest.mark.parametrize("function", [collected, carried, two_stages, counted])
def test_large_variables_keep_their_numbers(function: Callable[..., Any], smaller: bool) -> None:
    if function is collected:
        smaller = False
    values = []
    for call in (tf_exla.optimize(function, 20_000_000, strict=True), tf.function(function)):
        scale = tf.Variable(1.5, dtype=tf.float64)
        values.append([call(batches(smaller), scale) for _ in range(2)])
    for new, old in zip(*map(tf.nest.flatten, values), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-10)


def test_a_list_that_grows_above_the_limit_is_refused() -> None:
    long = tf.data.Dataset.from_tensor_slices(ROWS[:1300]).batch(1300, drop_remainder=True).repeat()
    scale = tf.Variable(1.0, dtype=tf.float64)
    with pytest.raises(tf_exla.MemoryLimitError, match="loop of collected"):
        tf_exla.optimize(collected, 2_000_000)(long, scale)  # without end


def test_threads_have_their_own_random_numbers() -> None:
    def drawn(data: tf.data.Dataset) -> tf.Tensor:
        total = tf.zeros([])
        for _ in data:
            total = total * 0.9 + tf.random.normal([], seed=3)
        return total

    data = tf.data.Dataset.range(200)
    optimized = tf_exla.optimize(drawn, LIMIT, strict=True)
    alone = optimized(data)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(optimized(data).numpy())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone.numpy()] * 4


def test_functions_of_a_saved_model(tmp_path: Path) -> None:
    module = tf.Module()
    spec = [tf.data.DatasetSpec(tf.TensorSpec([None, 4], tf.float64))]
    module.run = tf.function(lambda data: collect(data), input_signature=spec)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    optimized = tf_exla.optimize(lambda data: loaded.run(data) * 2.0, LIMIT, strict=True)
    np.testing.assert_allclose(optimized(batches(True)), 2.0 * collect(batches(True)))


def collect(data: tf.data.Dataset) -> tf.Tensor:
    zero = (tf.zeros([], tf.float64), 0)
    step = lambda s, rows: (s[0] + tf.reduce_sum(rows[:5] * 0.1), s[1] + 1)  # noqa: E731
    return data.reduce(zero, step)[0]


def test_the_end_of_an_iterator_in_a_body_is_an_error_there() -> None:
    def ends(data: tf.data.Dataset) -> tf.Tensor:
        total = tf.zeros([], tf.float64)
        inner = iter(data.take(1))
        for rows in data:
            total += tf.reduce_sum(rows) + tf.reduce_sum(next(inner))
        return total

    for call in (tf.function(ends), tf_exla.optimize(ends, LIMIT, strict=True)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            call(batches(True))


def test_a_report_before_a_call_says_what_it_cannot_know() -> None:
    scale = tf.Variable(1.0, dtype=tf.float64)
    optimized = tf_exla.optimize(summed, LIMIT, strict=True)
    assert any("after a call" in note for note in optimized.report(batches(True), scale).notes)
    optimized(batches(True), scale)
    assert not any("after a call" in one for one in optimized.report(batches(True), scale).notes)


def measure(name: str) -> tuple[int, int, int]:
    scale, data = tf.Variable(1.0, dtype=tf.float64), batches(smaller=True)
    optimized = tf_exla.optimize(globals()[name], LIMIT)
    measured = int(tf_exla.measured_peak(optimized, data, scale, fresh=False))
    report = optimized.report(data, scale)
    return report.projected_peak_before, report.projected_peak, measured


@pytest.mark.one_of(2)
@pytest.mark.parametrize("function", [summed, trained, two_loops, carried, two_stages])
def test_measured_peaks(function: Callable[..., Any]) -> None:
    before, projected, measured = run_fresh(measure, function.__name__)
    assert measured <= projected <= LIMIT
    assert function in (carried, two_stages) or before > LIMIT  # where something is split


def nearest(data: tf.data.Dataset, prefetched: bool = False) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the largest products of rows with all rows of a dataset, batch by batch."""

    @tf.function
    def function(rows: tf.Tensor) -> tf.Tensor:
        best = data.map(lambda x: tf.math.top_k(tf.matmul(rows, x, transpose_b=True), 5)[0])
        best = best.prefetch(1) if prefetched else best
        merge = lambda a, b: tf.math.top_k(tf.concat([a, b], 1), 5)[0]  # noqa: E731
        return best.reduce(tf.zeros([1300, 5], tf.float64), merge)

    return function


@pytest.mark.parametrize("smaller", [False, True])
def test_maps_under_a_reduction_are_planned(smaller: bool) -> None:
    """As tensorflow_recommenders searches candidates: a matrix of 13.5 MB for each batch."""
    function, rows = nearest(batches(smaller)), tf.constant(ROWS[:1300])
    optimized = tf_exla.optimize(function, LIMIT, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = optimized(rows)
    np.testing.assert_array_equal(found, function(rows))
    assert max(report.projected_peak for report in optimized.reports()) <= LIMIT
    assert any(report.loops for report in optimized.reports())


def test_functions_that_datasets_run_are_warned_of() -> None:
    function, rows = nearest(batches(), prefetched=True), tf.constant(ROWS[:1300])
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="for each element of a dataset"):
        found = tf_exla.optimize(function, LIMIT)(rows)
    np.testing.assert_array_equal(found, function(rows))
