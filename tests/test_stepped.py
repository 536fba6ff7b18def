"""Loops and branches with sizes that only the run tells: an eager call runs them step by step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from samples import but

import tf_exla
from tf_exla.frontends.tf.cutting import list_bytes
from tf_exla.frontends.tf.held import held_bytes

ROWS = np.random.default_rng(0).standard_normal((3500, 4))
LIMIT = 6_000_000


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Nothing must go uncounted."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tf_exla.UnboundedMemoryWarning)
        yield


def data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(ROWS).batch(1300)  # the last is smaller


def energy(rows: tf.Tensor) -> tf.Tensor:
    gaps = tf.reduce_sum(tf.square(rows[:, None] - rows), -1)
    return tf.reduce_mean(tf.exp(-gaps))


def over_an_iterator(batches: Any, scale: tf.Variable) -> Any:
    total = tf.zeros([], tf.float64)
    for rows in batches:
        total += energy(rows)
    return total


def steps(batches: Any, scale: tf.Variable) -> Any:
    """As Keras and the model garden train."""
    last = tf.zeros([], tf.float64)
    for _ in tf.range(3):
        rows = next(batches)
        with tf.GradientTape() as tape:
            last = energy(scale * rows)
        scale.assign_sub(0.1 * tape.gradient(last, scale))
    return last, scale.read_value()


def stops(batches: Any, scale: tf.Variable) -> Any:
    count = 0
    while scale < 10.0:
        rows = next(batches)
        scale.assign_add(energy(rows) * 5000)
        count += 1
        if count == 3:
            break
    return count, scale.read_value()


def in_a_branch(batches: Any, scale: tf.Variable) -> Any:
    scale.assign(scale * 2)
    total = energy(next(batches)) if scale > 1.0 else -energy(next(batches)[:7])
    return total * scale


def dataset_in_epochs(batches: Any, scale: tf.Variable) -> Any:
    for _ in tf.range(2):
        for rows in data().take(2):
            scale.assign_add(energy(rows))
    return scale.read_value()


def dataset_in_a_branch(batches: Any, scale: tf.Variable) -> Any:
    total = tf.zeros([], tf.float64)
    if scale > 0.5:
        for rows in data().skip(1):
            total += energy(rows)
    return total


def switched(batches: Any, scale: tf.Variable) -> Any:
    index = tf.cast(scale, tf.int32)
    return tf.switch_case(
        index, [lambda: energy(ROWS[:3]), lambda: energy(next(batches)), lambda: scale + 0.0]
    )


def masks_in_a_loop(batches: Any, scale: tf.Variable) -> Any:
    total = tf.zeros([], tf.float64)
    for k in tf.range(3):
        x = tf.constant(ROWS)
        rows = tf.boolean_mask(x, x[:, 0] > tf.cast(k, tf.float64) - 0.5)
        total += energy(rows) * scale
    return total


def stateful(batches: Any, scale: tf.Variable) -> Any:
    total = tf.zeros([], tf.float64)
    kept = tf.TensorArray(tf.float64, 3)
    for k in tf.range(3):
        rows = next(batches)
        tf.debugging.assert_all_finite(rows, "finite")
        noise = tf.random.stateless_normal(tf.shape(rows), (1, k), dtype=tf.float64)
        total += energy(rows + noise)
        kept = kept.write(k, total)
    return kept.stack() * energy(tf.constant(ROWS[:50]))


PROGRAMS = (
    over_an_iterator, steps, stops, in_a_branch, dataset_in_epochs, dataset_in_a_branch, switched,
    masks_in_a_loop, stateful,
)  # fmt: skip


@pytest.mark.one_of(2, 1)
@pytest.mark.parametrize("program", PROGRAMS)
def test_steps_are_planned(program: Callable[..., Any]) -> None:
    results = []
    for call in (tf_exla.optimize(program, LIMIT, strict=True), tf.function(program)):
        batches, scale = iter(data()), tf.Variable(1.0, dtype=tf.float64)
        again = iter(data())
        results.append([call(batches, scale), call(again, scale)])
    for new, old in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-10)


def nested_lists(batches: Any, scale: tf.Variable) -> Any:
    """TensorFlow keeps lists of lists for gradients of the inner loop."""
    total = tf.zeros([], tf.float64)
    for i in tf.range(3):
        for _ in tf.range(tf.minimum(i, 1)):
            total += energy(next(batches))
    return total * scale


def sizes_and_small_results(batches: Any, scale: tf.Variable) -> Any:
    """The head computes a small result; the rest is specialised to a size alone."""
    total = tf.zeros([], tf.float64)
    for k in tf.range(tf.cast(scale * 3, tf.int32)):
        total += tf.reduce_sum(tf.ones([k], tf.float64))
    return total, scale + 1


def large_results(batches: Any, scale: tf.Variable) -> Any:
    rows = next(batches)[:50] if scale < 0 else tf.concat([next(batches), next(batches)], 0)[:1500]
    return energy(rows)


def uneven(batches: Any, scale: tf.Variable) -> Any:
    """A list with elements of several sizes."""
    kept = tf.TensorArray(tf.float64, 40, infer_shape=False, element_shape=[None, 4])
    for k in tf.range(40):
        kept = kept.write(k, next(batches)[:3] * scale if k % 9 > 0 else next(batches))
    return tf.reduce_sum(kept.read(9)) + energy(kept.read(18)[:20])


@pytest.mark.one_of(2)
@pytest.mark.parametrize("program", [nested_lists, sizes_and_small_results, large_results, uneven])
def test_what_a_review_found(program: Callable[..., Any]) -> None:
    results = []
    for call in (tf_exla.optimize(program, LIMIT, strict=True), tf.function(program)):
        scale = tf.Variable(1.0, dtype=tf.float64)
        batches = iter(data().repeat())
        results.append([call(batches, scale) for _ in range(3)])
    for new, old in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-10)


def read_in_a_loop(batches: Any) -> tf.Tensor:
    total = tf.zeros([], tf.float64)
    for _ in tf.range(300):
        total += tf.reduce_sum(tf.square(next(batches)))
    return total


def read_in_a_loop_of_loops(batches: Any) -> tf.Tensor:
    total, k = tf.zeros([], tf.float64), 0
    while k < 20:
        for _ in tf.range(15):
            total += tf.reduce_sum(tf.square(next(batches)))
        k += 1
    return total


def read_in_branches(batches: Any) -> tf.Tensor:
    total = tf.zeros([], tf.float64)
    for k in tf.range(300):
        if k % 3 > 0:
            total += tf.reduce_sum(next(batches))
        else:
            total -= tf.reduce_sum(next(batches)) * tf.reduce_sum(next(batches))
    return total


@pytest.mark.parametrize(
    "program",
    but([read_in_a_loop_of_loops], [read_in_a_loop, read_in_a_loop_of_loops, read_in_branches]),
)
def test_elements_are_not_kept_for_gradients(program: Callable[..., Any]) -> None:
    """All elements together take 9 to 13 MB."""
    optimized, batches = tf_exla.optimize(program, 2_000_000, strict=True), iter(data().repeat())
    expected = tf.function(program)(iter(data().repeat()))
    np.testing.assert_allclose(optimized(batches), expected)
    assert all(report.projected_peak <= 2_000_000 for report in optimized.reports())


def test_a_call_runs_step_by_step_after_one_with_a_gradient() -> None:
    """TensorFlow adds results to a loop of which it makes the gradient."""
    scale = tf.Variable(np.float64(0.5))

    def program(batches: Any) -> tf.Tensor:
        total = tf.zeros([], tf.float64)
        for _ in tf.range(7):
            total += tf.reduce_sum(tf.square(next(batches) * scale))
        return total

    expected = tf.function(program)(iter(data().repeat()))
    optimized = tf_exla.optimize(program, 20_000_000, strict=True)
    for recorded in (True, False, False):
        with warnings.catch_warnings(), tf.GradientTape(watch_accessed_variables=recorded) as tape:
            warnings.simplefilter("ignore", tf_exla.UnboundedMemoryWarning)
            value = optimized(iter(data().repeat()))
        np.testing.assert_allclose(value, expected)
        if recorded:
            np.testing.assert_allclose(tape.gradient(value, scale), 4 * expected)


def test_a_list_that_grows_reserves_about_what_it_holds() -> None:
    """A report would else show half of the limit, whatever the list holds."""

    def gathered(batches: Any) -> tf.Tensor:
        kept = tf.TensorArray(tf.float64, 0, dynamic_size=True, element_shape=[300])
        k = tf.constant(0)
        while k < 600:
            kept = kept.write(k, tf.reduce_sum(next(batches)) * tf.ones([300], tf.float64))
            k += 1
        return tf.reduce_sum(kept.stack(), 0)

    limit = 100_000_000
    optimized, batches = tf_exla.optimize(gathered, limit, strict=True), iter(data().repeat())
    np.testing.assert_allclose(optimized(batches), gathered(iter(data().repeat())))
    peaks = [one.projected_peak for one in optimized.reports()]
    assert 600 * 300 * 8 <= max(peaks) <= limit / 12


def test_elements_of_lists_are_added_up_only_if_bounds_do_not_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To add them up at each step takes quadratic time."""

    def gathered(batches: Any) -> Any:
        first, second = (tf.TensorArray(tf.float64, 100) for _ in range(2))
        for k in tf.range(100):
            rows = next(batches)
            first, second = first.write(k, tf.reduce_sum(rows, 0)), second.write(k, rows[0, 0])
        return tf.reduce_sum(first.stack(), 0), second.stack()

    added_up = []

    def counted(value: tf.Tensor, dtype: str = "") -> int:
        added_up.append(value)
        return held_bytes(value, dtype)

    monkeypatch.setattr(list_bytes, "held_bytes", counted)
    optimized = tf_exla.optimize(gathered, LIMIT, strict=True)
    expected = gathered(iter(data().repeat()))
    for most in (24, 4):
        for new, old in zip(optimized(iter(data().repeat())), expected, strict=True):
            np.testing.assert_allclose(new, old)
        assert len(added_up) <= most
        added_up.clear()


def test_results_of_steps_count_in_the_rest() -> None:
    """Their sizes are those that came, and so their readers are split."""
    scale = tf.Variable(1.0, dtype=tf.float64)
    optimized = tf_exla.optimize(large_results, LIMIT, strict=True)
    optimized(iter(data()), scale)
    (report,) = optimized.reports()
    assert report.projected_peak <= LIMIT < report.projected_peak_before


def test_a_gradient_is_not_lost() -> None:
    """The results of a loop that is run step by step have none, so a taped call runs it whole."""
    scale = tf.Variable(2.0, dtype=tf.float64)

    def scaled(batches: Any) -> tf.Tensor:
        total = tf.zeros([], tf.float64)
        for _ in tf.range(2):
            total += tf.reduce_mean(scale * next(batches))
        return total

    optimized = tf_exla.optimize(scaled, LIMIT)
    plain = optimized(iter(data()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tf_exla.UnboundedMemoryWarning)
        with tf.GradientTape() as tape:
            value = optimized(iter(data()))
    np.testing.assert_allclose([plain, plain / 2], [value, tape.gradient(value, scale)])


def test_seeded_kernels_are_not_run_step_by_step() -> None:
    def noisy(batches: Any) -> tf.Tensor:
        total = tf.zeros([], tf.float64)
        for _ in tf.range(2):
            total += tf.reduce_mean(next(batches)) * tf.random.normal([], seed=2, dtype=tf.float64)
        return total

    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tf_exla.UnboundedMemoryWarning)
        for call in (tf_exla.optimize(noisy, LIMIT), tf.function(noisy)):
            tf.random.set_seed(3)
            values.append([call(iter(data())) for _ in range(2)])
    np.testing.assert_allclose(*values)


def test_a_step_above_the_limit_is_refused_before_it_runs() -> None:
    scale = tf.Variable(1.0, dtype=tf.float64)
    with pytest.raises(tf_exla.MemoryLimitError, match="loop of steps"):
        tf_exla.optimize(steps, 1_150_000)(iter(data()), scale)
    assert scale.numpy() == 1.0


def measure(name: str) -> tuple[int, int]:
    """Return the projected and the measured peak of a program."""
    scale = tf.Variable(1.0, dtype=tf.float64)
    optimized = tf_exla.optimize(globals()[name], LIMIT)
    batches = iter(data().repeat())
    for _ in range(3):  # a measured call must not plan
        optimized(batches, scale)
    # The least of three: between steps Python may reserve an arena of 1 MB, but not in each call.
    calls = (tf_exla.measured_peak(optimized, batches, scale, fresh=False) for _ in range(3))
    measured = min(map(int, calls))
    return max(one.projected_peak for one in optimized.reports()), measured


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "program", [steps, in_a_branch, dataset_in_epochs, masks_in_a_loop, stateful]
)
def test_measured_peaks(program: Callable[..., Any]) -> None:
    projected, measured = run_fresh(measure, program.__name__)
    assert measured <= projected <= LIMIT
