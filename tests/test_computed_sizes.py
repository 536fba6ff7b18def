"""Sizes that data determine: masks, distinct values, partitions, repetitions.

If bounds of these sizes exceed the limit, an eager call computes them first, and plans the rest for
them.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import normal
from samples import but

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.capture.given import NOTHING, Given
from tf_exla.frontends.tf.cutting.sources import find_computed_cut

POINTS = np.random.default_rng(0).standard_normal((2003, 3))
OTHERS = tf.constant(np.random.default_rng(1).standard_normal((1501, 3)))
TARGETS = np.where(np.abs(POINTS[:, 0]) > 1.2, np.nan, np.sin(POINTS[:, 1]))
LIMIT = 5_000_000
"""A fifth of what one of the matrices takes, which have no axis of known size, or one."""


def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    gaps = tf.reduce_sum(x * x, -1)[:, None] + tf.reduce_sum(y * y, -1)
    return tf.exp(-0.5 * (gaps - 2.0 * tf.matmul(x, y, transpose_b=True)))


def observed(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    kept = tf.logical_not(tf.math.is_nan(y))
    return tf.boolean_mask(x, kept), tf.boolean_mask(y, kept)


def masked(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    seen, values = observed(x, y)
    return tf.linalg.matvec(kernel(seen, OTHERS), values, transpose_a=True)


def masked_twice(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The second size is known only after the first."""
    seen, values = observed(x, y)
    near = tf.boolean_mask(seen, values > 0.1)
    return tf.reduce_sum(kernel(seen, near), 0), tf.shape(near)


def with_gradients(x: tf.Tensor, y: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        seen, values = observed(x, y)
        loss = tf.reduce_sum(tf.linalg.matvec(kernel(seen, seen), values) ** 2)
    return loss, tape.gradient(loss, x)


def distinct(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    cells, place = tf.unique(tf.cast(tf.floor(x[:, 0] * 900), tf.int32))
    near = kernel(x, tf.cast(cells, x.dtype)[:, None] / 900 + tf.zeros([1, 3], x.dtype))
    return tf.reduce_sum(near, 1) + tf.cast(place, x.dtype)


def partitioned(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    kinds = tf.cast(x[:, 0] > 0.3, tf.int32) + tf.cast(x[:, 1] > 0.0, tf.int32)
    parts = tf.dynamic_partition(x, kinds, 3)
    places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), kinds, 3)
    return tf.dynamic_stitch(places, [tf.reduce_sum(kernel(part, OTHERS), 1) for part in parts])


def repeated(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    times = tf.cast(tf.abs(x[:, 2]) * 2, tf.int32)
    return tf.reduce_max(kernel(tf.repeat(x, times, 0), OTHERS), 0)


def counted(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A size follows from a number that is computed."""
    count = tf.reduce_sum(tf.cast(x[:, 0] > 0.2, tf.int32))
    places = tf.cast(tf.range(count), x.dtype)[:, None]
    near = tf.concat([places / 999.0, tf.ones([count, 2], x.dtype)], 1)
    return tf.reduce_sum(kernel(near, OTHERS), 0)


def ragged(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    lengths = tf.cast(tf.abs(x[:, 2]) * 3, tf.int64)
    rows = tf.RaggedTensor.from_row_lengths(tf.repeat(x, lengths, 0), lengths)
    return tf.reduce_sum(rows * 2.0, 1) + tf.reduce_sum(kernel(rows.values, OTHERS))


LABELS = tf.constant(np.arange(2003) * 31 % 1200)


def from_captured_labels(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The number of segments follows from a tensor that the function captured."""
    sums = tf.math.unsorted_segment_sum(x, LABELS[: len(x)], tf.reduce_max(LABELS) + 1)
    return tf.reduce_sum(kernel(sums, sums), 1)


def neighbours(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Positions in a mask, of which there are far fewer than the mask has elements."""
    pairs = tf.where(kernel(x, OTHERS) > 0.995)
    near = tf.gather(tf.exp(x), pairs[:, 0])
    return tf.reduce_sum(near * tf.gather(OTHERS, pairs[:, 1]), 1)


PROGRAMS = (
    neighbours,
    from_captured_labels,
    masked,
    masked_twice,
    with_gradients,
    distinct,
    partitioned,
    repeated,
    counted,
    ragged,
)


def check_equal(found: Any, expected: Any) -> None:
    for new, old in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_rest_is_planned_for_the_sizes_of_each_call(program: Callable[..., Any]) -> None:
    optimized = tf_exla.optimize(program, LIMIT, strict=True)
    for rows in (POINTS, POINTS[:1777], POINTS):
        x, y = tf.constant(rows), tf.constant(TARGETS[: len(rows)])
        check_equal(optimized(x, y), program(x, y))
    for report in optimized.reports():
        assert report.projected_peak <= LIMIT
        assert report.loops


@pytest.mark.parametrize("targets", [TARGETS * np.nan, np.nan_to_num(TARGETS)], ids=["none", "all"])
@pytest.mark.parametrize("program", [masked, masked_twice, with_gradients])
def test_nothing_or_everything_is_selected(program: Callable[..., Any], targets: Any) -> None:
    arguments = tf.constant(POINTS), tf.constant(targets)
    check_equal(tf_exla.optimize(program, LIMIT)(*arguments), program(*arguments))


def sampled(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    kept = tf.random.uniform([tf.shape(x)[0]], seed=3) < 0.8
    return tf.reduce_sum(kernel(tf.boolean_mask(x, kept), OTHERS), 0)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("program", [masked, neighbours, partitioned, repeated, sampled])
def test_a_tape_around_the_call(program: Callable[..., Any]) -> None:
    def gradient(function: Callable[..., Any]) -> Any:
        tf.random.set_seed(2)
        x, y = tf.constant(POINTS), tf.constant(TARGETS)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(function(x, y) ** 2)
        return value, tape.gradient(value, x)

    check_equal(gradient(tf_exla.optimize(program, LIMIT)), gradient(tf.function(program)))


def few(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    chosen = tf.boolean_mask(x, y > 0.99)
    return tf.reduce_sum(kernel(chosen, OTHERS), 0)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("program", [masked, masked_twice, few, sampled])
def test_no_larger_limit_is_refused_because_a_call_fits_without_its_gradient(
    program: Callable[..., Any],
) -> None:
    """The call is then cut all the same, since the gradient of the rest fits."""
    x, y = tf.constant(POINTS), tf.constant(TARGETS)

    def gradient(limit: int) -> Any:
        optimized = tf_exla.optimize(program, limit, strict=True)
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = optimized(x, y)
            value = tf.reduce_sum(made[0] if isinstance(made, tuple) else made)
        return tape.gradient(value, x)

    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(program, 1).report(x, y)
    whole = info.value.smallest_limit
    assert LIMIT < whole
    expected = gradient(10 * whole)
    for limit in (LIMIT, whole, whole + whole // 2):
        tf.random.set_seed(2)
        if program is sampled:
            gradient(limit)
        else:
            check_equal(gradient(limit), expected)


def beside(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The gradient needs more than the call, and the call more in parts than as a whole."""
    return tf.reduce_mean(kernel(x, OTHERS), 0) + tf.reduce_sum(tf.boolean_mask(y, y > 0.0))


@pytest.mark.parametrize("between", but([1, 2, 4, 5], range(7)))
@pytest.mark.parametrize("program", [masked, few, beside])
def test_the_limit_that_an_error_of_a_recorded_call_names_works(
    program: Callable[..., Any], between: int
) -> None:
    """At a number of limits between the smallest of the call and a fifth more."""
    x, y = tf.constant(POINTS), tf.constant(TARGETS)

    def named(limit: int) -> int | None:
        try:
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = tf.reduce_sum(tf_exla.optimize(program, limit, strict=True)(x, y))
            tape.gradient(value, x)
        except tf_exla.MemoryLimitError as error:
            return error.smallest_limit
        return None

    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(program, 1).report(x, y)
    call = info.value.smallest_limit
    again = named(int(np.linspace(call, 1.2 * call, 7)[between]))
    assert again is None or named(again) is None


def test_an_error_names_the_limit_from_which_a_call_runs_in_parts() -> None:
    x, y = tf.constant(POINTS), tf.constant(TARGETS)
    with pytest.raises(tf_exla.MemoryLimitError, match="may work too") as info:
        tf_exla.optimize(few, 1)(x, y)
    in_parts, whole = info.value.smallest_in_parts, info.value.smallest_limit
    assert in_parts is not None
    assert 4 * in_parts < whole
    optimized = tf_exla.optimize(few, 2 * in_parts, strict=True)
    check_equal(optimized(x, y), few(x, y))
    copied = pickle.loads(pickle.dumps(info.value))
    assert (str(copied), copied.smallest_in_parts) == (str(info.value), in_parts)


def neighbours(x: tf.Tensor) -> tf.Tensor:
    """Positions in a mask, of which nearly all are false."""
    near = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1) < 0.02
    pairs = tf.where(near)
    count = tf.ones([tf.shape(pairs)[0]], tf.int32)
    return tf.math.unsorted_segment_sum(count, tf.cast(pairs[:, 0], tf.int32), len(x))


def test_an_error_names_the_limit_of_the_parts_that_need_the_least() -> None:
    """A head that returns the mask needs less than one that returns bounds of the positions."""
    x = tf.constant(normal(1200, 3))
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(neighbours, 1)(x)
    assert info.value.smallest_in_parts is not None
    assert 6 * info.value.smallest_in_parts < info.value.smallest_limit
    optimized = tf_exla.optimize(neighbours, 2 * info.value.smallest_in_parts, strict=True)
    check_equal(optimized(x), neighbours(x))


def test_random_masks_are_drawn_once() -> None:
    def drawn(x: tf.Tensor) -> Any:
        kept = tf.random.uniform([tf.shape(x)[0]], seed=3) < 0.8
        after = tf.random.uniform([2], seed=4)
        chosen = tf.boolean_mask(x, kept)
        return tf.reduce_sum(kernel(chosen, OTHERS), 0), tf.shape(chosen), after

    x, found, expected = tf.constant(POINTS), [], []
    for function, made in (
        (tf_exla.optimize(drawn, LIMIT), found),
        (tf.function(drawn), expected),
    ):
        tf.random.set_seed(1)
        made.extend(function(x) for _ in range(3))
    check_equal(found, expected)


@pytest.mark.parametrize("draw", [tf.nn.dropout, lambda x, rate, seed: tf.random.shuffle(x, seed)])
def test_no_numbers_are_drawn_again_at_another_size(draw: Callable[..., tf.Tensor]) -> None:
    """If each plan of the rest had a kernel of its own, it would start at the seed."""

    def drawn(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        seen, _ = observed(x, y)
        return tf.reduce_sum(kernel(draw(seen, 0.3, seed=3), OTHERS), 0)[:1], seen[:1]

    def results(function: Callable[..., Any]) -> list[Any]:
        tf.random.set_seed(0)
        rows = (2003, 1777, 1777, 2003)
        return [function(tf.constant(POINTS[:n]), tf.constant(TARGETS[:n])) for n in rows]

    like = [tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([None], tf.float64)]
    expected = results(tf.function(drawn, input_signature=like))
    try:
        found = results(tf_exla.optimize(tf.function(drawn, input_signature=like), LIMIT))
    except tf_exla.MemoryLimitError:
        assert draw is not tf.nn.dropout
    else:
        check_equal(found, expected)


def test_effects_after_the_mask_happen_once_and_in_order() -> None:
    def step(x: tf.Tensor, y: tf.Tensor, scale: tf.Variable, count: tf.Variable) -> Any:
        with tf.GradientTape() as tape:
            seen, values = observed(x, y)
            loss = tf.reduce_sum(tf.linalg.matvec(kernel(scale * seen, OTHERS), values, True) ** 2)
        count.assign_add(1)
        scale.assign_sub(1e-9 * tape.gradient(loss, scale))
        return loss, scale.read_value(), count + 0

    x, y = tf.constant(POINTS), tf.constant(TARGETS)
    results = []
    for function in (tf_exla.optimize(step, LIMIT), tf.function(step)):
        scale, count = tf.Variable(1.0, dtype=tf.float64), tf.Variable(0)
        results.append([function(x, y, scale, count) for _ in range(3)])
    check_equal(*results)


def test_a_refused_call_has_changed_nothing() -> None:
    level = tf.Variable(0.5, dtype=tf.float64)

    def after_an_assignment(x: tf.Tensor) -> tf.Tensor:
        """The mask needs the new value, so its size is known only after the assignment."""
        level.assign(0.1)
        chosen = tf.boolean_mask(x, x[:, 0] > level)
        return tf.reduce_sum(kernel(chosen, OTHERS), 0)

    def too_much(x: tf.Tensor) -> tf.Tensor:
        chosen = tf.boolean_mask(x, x[:, 0] > level)
        level.assign(0.1)
        return tf.linalg.cholesky(kernel(chosen, chosen))

    for function in (after_an_assignment, too_much):
        with pytest.raises(tf_exla.MemoryLimitError):
            tf_exla.optimize(function, LIMIT)(tf.constant(POINTS))
        assert float(level) == 0.5


def test_a_report_before_the_first_call_is_that_of_the_call() -> None:
    x, y = tf.constant(POINTS), tf.constant(TARGETS)
    rows = tf.Variable(POINTS, shape=[None, 3])
    for function in (masked, lambda x, y: masked(x, y) + tf.reduce_sum(kernel(rows, x))):
        optimized = tf_exla.optimize(function, LIMIT)
        before = optimized.report(x, y)
        optimized(x, y)
        after = optimized.report(x, y)
        assert before.projected_peak == after.projected_peak <= LIMIT < after.projected_peak_before


@pytest.mark.filterwarnings("error::tf_exla.UnboundedMemoryWarning")
@pytest.mark.parametrize("unbounded", ["raise", "warn"])
def test_sizes_without_a_bound_are_computed_before_anything_is_refused(unbounded: Any) -> None:
    """Nothing is refused, nor is there a warning that it was not counted."""
    dense = np.where(np.abs(POINTS) > 1.5, POINTS, 0.0)
    sparse = tf.sparse.from_dense(dense)

    def product(sparse: tf.SparseTensor, other: tf.Tensor) -> tf.Tensor:
        rows = tf.sparse.sparse_dense_matmul(sparse, other)
        return tf.reduce_sum(tf.tanh(tf.matmul(rows, rows, transpose_b=True)))

    optimized = tf_exla.optimize(product, LIMIT, unbounded=unbounded)
    weights = tf.eye(3, 5, dtype=tf.float64)
    check_equal(optimized(sparse, weights), product(sparse, weights))
    assert optimized.report(sparse, weights).loops


@pytest.mark.parametrize("taped", [False, True])
def test_sizes_that_arguments_hold(taped: bool) -> None:
    """A number that is a tensor is an argument like others; each value has its own plan."""

    def first(x: tf.Tensor, count: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
        near = kernel(x[:count], tf.ones(shape, x.dtype))
        return tf.reduce_sum(near, 1) * tf.cast(tf.range(count), x.dtype)

    def call(function: Callable[..., Any], count: int) -> Any:
        x, sizes = tf.constant(POINTS), (tf.constant(count), tf.constant([1777, 3]))
        with tf.GradientTape() as tape:
            if taped:
                tape.watch(x)
            value = tf.reduce_sum(function(x, *sizes))
        return value, tape.gradient(value, x) if taped else 0

    optimized = tf_exla.optimize(first, 2 * LIMIT, strict=True)
    for count in (2003, 1000, 2003, 0):
        check_equal(call(optimized, count), call(tf.function(first), count))


@pytest.mark.filterwarnings("default::tf_exla.NotOptimizedWarning")
def test_sizes_that_do_not_fit_raise_the_error_of_the_original_function() -> None:
    def scaled(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        return x[:10] * tf.cast(tf.range(count), x.dtype)[:, None]

    x = tf.constant(POINTS)
    optimized = tf_exla.optimize(scaled, LIMIT)
    check_equal(optimized(x, tf.constant(10)), scaled(x, tf.constant(10)))
    for function in (optimized, tf.function(scaled)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(x, tf.constant(11))


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "function",
    [lambda n: tf.zeros([n, 3]) + 1, lambda n: tf.tile(tf.range(3.0), [n]), lambda n: tf.eye(n)],
)
def test_a_negative_size_raises_what_it_raised(
    function: Callable[[tf.Tensor], tf.Tensor], strict: bool
) -> None:
    optimized = tf_exla.optimize(function, LIMIT, strict=strict)
    check_equal(optimized(tf.constant(4)), function(tf.constant(4)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        optimized(tf.constant(-1))


def test_paddings_and_seeded_numbers_of_a_computed_size() -> None:
    def function(n: tf.Tensor) -> Any:
        return tf.pad(tf.range(3.0), [[n, 1]]), tf.random.normal([n, 2], seed=2)

    results: list[list[Any]] = []
    for call in (tf_exla.optimize(function, LIMIT, strict=True), tf.function(function)):
        tf.random.set_seed(4)
        results.append([call(tf.constant(n)) for n in (3, 5, 3, 0)])
    check_equal(*results)


def test_threads_that_differentiate_one_function() -> None:
    """Gradients behind heads are traced from one function, of which one thread at a time may."""
    wrong: list[Any] = []

    def function(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.ones([n])[:, None] * tf.boolean_mask(x, x > 0) ** 2)

    optimized = tf_exla.optimize(function, LIMIT, strict=True)

    def work(k: int) -> None:
        try:
            for n in (1, k % 3 + 1, 4):
                x = tf.range(10.0) - k
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    value = optimized(x, tf.constant(n))
                check_equal(tape.gradient(value, x), 2.0 * n * tf.nn.relu(x))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_python_returns_has_no_bound() -> None:
    def from_numpy(x: tf.Tensor) -> tf.Tensor:
        seen = tf.numpy_function(lambda a: a[a[:, 0] > 0], [tf.sin(x)], x.dtype)
        return tf.reduce_sum(kernel(tf.ensure_shape(seen, [None, 3]), OTHERS), 0)

    x = tf.constant(POINTS)
    with pytest.raises(tf_exla.UnboundedMemoryError):
        tf_exla.optimize(from_numpy, LIMIT)(x)
    optimized = tf_exla.optimize(from_numpy, LIMIT, unbounded="warn")
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="PyFunc"):
        value = optimized(x)
    check_equal(value, from_numpy(x))
    (report,) = optimized.reports()  # what comes after is planned for the size that came
    assert report.projected_peak <= LIMIT < report.projected_peak_before


def test_inside_of_another_function_sizes_stay_open() -> None:
    optimized = tf_exla.optimize(masked, LIMIT)
    with pytest.raises(tf_exla.MemoryLimitError):
        tf.function(lambda *arguments: optimized(*arguments) + 1.0)(POINTS, TARGETS)


def test_only_what_exists_before_the_call_is_resident() -> None:
    """Not what a head gives to the rest: a measurement counts that as allocated by the call."""

    def wide(x: tf.Tensor) -> tf.Tensor:
        row = tf.tanh(x[:, :1] + x[:, 1] + tf.random.normal([], dtype=x.dtype))
        return tf.reduce_sum(tf.boolean_mask(row, x[:, 0] > 0.0) ** 2, 0) + tf.reduce_sum(row, 0)

    x = tf.constant(POINTS[:500])
    optimized = tf_exla.optimize(wide, 2_500_000)
    optimized(x)
    assert optimized.resident_bytes(x) <= 500 * 3 * 8 + 1000


def measure(name: str) -> tuple[int, int]:
    """Return the projected and the measured peak of a program."""
    optimized, arguments = tf_exla.optimize(globals()[name], LIMIT), (POINTS, TARGETS)
    x, y = map(tf.constant, arguments)
    optimized(x, y)
    measured = int(tf_exla.measured_peak(optimized, x, y, fresh=False))
    return max(one.projected_peak for one in optimized.reports()), measured


@pytest.mark.one_of(2, 1)
@pytest.mark.parametrize("program", PROGRAMS)
def test_measured_peaks(program: Callable[..., Any]) -> None:
    projected, measured = run_fresh(measure, program.__name__)
    assert measured <= projected <= LIMIT


def filled(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    rows = tf.TensorArray(x.dtype, size=n)
    for i in tf.range(n):
        rows = rows.write(i, tf.reduce_sum(kernel(x * tf.cast(i + 1, x.dtype), OTHERS), 1))
    return tf.reduce_sum(rows.stack(), 0)


def grown(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    rows = tf.TensorArray(x.dtype, size=0, dynamic_size=True)
    for i in tf.range(n):
        rows = rows.write(i, tf.reduce_sum(kernel(x * tf.cast(i + 1, x.dtype), OTHERS), 1))
    return tf.reduce_sum(rows.stack(), 0)


def descended(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    """The gradient of each of a few steps, through all before it."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in tf.range(n):
            y = y - 0.01 * tf.matmul(kernel(y, OTHERS), OTHERS)
        loss = tf.reduce_sum(y**2)
    return tape.gradient(loss, x)


@pytest.mark.parametrize("program", [filled, grown, descended], ids=lambda one: one.__name__)
def test_a_call_computes_how_often_a_loop_runs(program: Callable[..., Any]) -> None:
    x, stock = tf.constant(POINTS), tf.function(program)
    optimized = tf_exla.optimize(stock, LIMIT, strict=True)
    for n in (3, 1, 3):
        check_equal(optimized(x, tf.constant(n)), stock(x, tf.constant(n)))
    for report in optimized.reports():
        assert report.projected_peak <= LIMIT


def test_a_loop_of_random_draws_runs_as_often_as_a_call_says() -> None:
    def drawn(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        rows = tf.TensorArray(x.dtype, size=0, dynamic_size=True)
        for i in tf.range(n):
            rows = rows.write(i, tf.reduce_sum(tf.nn.dropout(x, 0.5), 1))
        return rows.stack()

    tf.random.set_seed(None)  # seeded kernels keep a state, which no two plans can share
    optimized = tf_exla.optimize(drawn, LIMIT, strict=True)
    rows = optimized(tf.ones((7, 1000), tf.float64), tf.constant(3)).numpy()
    assert rows.shape == (3, 7)
    assert len(np.unique(rows)) > 3
    assert abs(rows.mean() / 1000 - 1) < 0.1


def test_what_is_given_already_is_not_computed_again() -> None:
    """Else a program that the numbers do not help is cut without end."""
    concrete = tf.function(grown).get_concrete_function(tf.constant(POINTS), tf.constant(3))
    graph = capture(concrete).graph
    cut = find_computed_cut(graph, (), NOTHING)
    assert cut is not None
    assert len(cut.sizes) == 1
    given = Given(values=dict.fromkeys(cut.sizes, np.array(3)))
    assert find_computed_cut(graph, (), given) is None
