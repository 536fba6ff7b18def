"""Memory that no shape shows is counted: data-dependent sizes, tensors in lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs_check import difference
from samples import but
from size_programs import ALL, PROGRAMS, X

import tf_exla


def check(names: list[str]) -> list[dict[str, Any]]:
    """Check each program at the smallest limit that it can run with."""
    found = []
    for name in names:
        stock = tf.function(PROGRAMS[name], autograph=False)
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.explain(stock, X, ALL, limit=1)
        limit = info.value.smallest_limit
        optimized = tf_exla.optimize(stock, limit)
        found.append({
            "name": name,
            "limit": limit,
            "projected": optimized.report(X, ALL).projected_peak,
            "measured": int(tf_exla.measured_peak(optimized, X, ALL)),
            "worst": difference(stock(X, ALL), optimized(X, ALL), 1e-7),
        })  # fmt: skip
    return found


@pytest.mark.parametrize("first", but([1], [0, 1]))
def test_counted(first: int) -> None:
    """For every second program of the table."""
    rows = run_fresh(check, list(PROGRAMS)[first::2])
    exceeded = [one for one in rows if not one["measured"] <= one["projected"] <= one["limit"]]
    assert not exceeded
    assert not [one for one in rows if one["worst"] > 1]
    # A bound is useful only if it is not far off.
    loose = [one for one in rows if one["projected"] > 4 * one["measured"]]
    assert not loose


SMALL = X[:30]


def from_python(x: tf.Tensor) -> tf.Tensor:
    # On computed numbers: a call that needs none would run first, and its size would be known.
    return tf.numpy_function(lambda one: one, [2.0 * x], x.dtype)


def segments(x: tf.Tensor) -> tf.Tensor:
    return tf.math.segment_sum(x, tf.sort(tf.cast(tf.abs(x[:, 0]), tf.int32)))


def squares(x: tf.Tensor) -> tf.Tensor:
    """An upper bound of the numbers does not bound their squares: they may be negative."""
    places = tf.argmax(x, 1) - 40
    return tf.math.segment_sum(x, tf.sort(places * places))


@pytest.mark.parametrize("function", [segments, squares])
def test_in_a_graph_no_call_computes_the_number_of_segments(function: Callable[..., Any]) -> None:
    optimized = tf_exla.optimize(function, 10**9)
    np.testing.assert_array_equal(optimized(SMALL), tf.function(function)(SMALL))
    with pytest.raises(tf_exla.UnboundedMemoryError, match='unbounded="warn"') as info:
        tf.function(lambda x: tf.reduce_sum(optimized(x)))(SMALL)
    assert info.value.op == "SegmentSum"
    assert "test_sizes.py" in info.value.source
    assert info.value.source in str(info.value)
    warned = tf_exla.optimize(function, 10**9, unbounded="warn")
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="not counted") as told:
        found = tf.function(lambda x: tf.exp(warned(x)))(SMALL)
    assert {one.filename for one in told} == {__file__}
    np.testing.assert_allclose(found, tf.exp(function(SMALL)))


REDUCTIONS = (
    tf.math.segment_max, tf.math.segment_mean, tf.math.segment_min, tf.math.segment_prod,
    tf.math.segment_sum,
)  # fmt: skip


@pytest.mark.parametrize("reduce", REDUCTIONS, ids=lambda one: one.__name__)
def test_the_number_of_segments_is_computed_first(reduce: Callable[..., Any]) -> None:
    def function(x: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(reduce(tf.cos(x), ids))
        return y, tape.gradient(y, x), tf.shape(y)

    optimized = tf_exla.optimize(function, 10**7, strict=True)
    for ids in ([0, 0, 2], [1, 1, 1], [5, 6, 7], [], np.arange(30) // 4):
        given = SMALL[: len(ids)], tf.constant(ids, tf.int64)
        for found, wanted in zip(optimized(*given), tf.function(function)(*given), strict=True):
            np.testing.assert_array_equal(found, wanted)
    with pytest.raises(tf.errors.InvalidArgumentError):
        optimized(SMALL[:2], tf.constant([3, 1], tf.int64))


def in_a_branch(x: tf.Tensor) -> tf.Tensor:
    return tf.cond(x[0, 0] > 100.0, lambda: from_python(x), lambda: x)


def doubling(x: tf.Tensor) -> tf.Tensor:
    """A tensor that grows in each iteration, while the number of iterations is unknown."""
    more = lambda y: tf.reduce_sum(y) < 1e4  # noqa: E731
    step = lambda y: [tf.concat([y, y], 0)]  # noqa: E731
    shapes = [tf.TensorShape([None, 50])]
    return tf.while_loop(more, step, [tf.abs(x)], shape_invariants=shapes)[0][:30]


UNBOUNDED: list[tuple[Callable[..., Any], str]] = [
    (from_python, "PyFunc"),
]


@pytest.mark.parametrize(
    ("function", "op"), UNBOUNDED, ids=lambda one: getattr(one, "__name__", "")
)
def test_unbounded_is_refused_or_said(function: Callable[..., Any], op: str) -> None:
    with pytest.raises(tf_exla.UnboundedMemoryError, match='unbounded="warn"') as info:
        tf_exla.optimize(function, 10**9)(SMALL)
    assert info.value.op == op
    assert "test_sizes.py" in info.value.source
    assert info.value.source in str(info.value)
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="not counted"):
        found = tf_exla.optimize(function, 10**9, unbounded="warn")(SMALL)
    np.testing.assert_allclose(found, tf.function(function)(SMALL))


def repeated_by_data(x: tf.Tensor) -> tf.Tensor:
    return tf.repeat(x, tf.cast(tf.abs(x[:, 0]), tf.int32), axis=0)


def histogram(x: tf.Tensor) -> tf.Tensor:
    return tf.math.bincount(tf.cast(tf.abs(x[:, 0]), tf.int32))


IN_A_GRAPH = [
    (repeated_by_data, "arange"),
    (histogram, "DenseBincount"),
    (in_a_branch, "PyFunc"),
    (doubling, "concat"),
]


@pytest.mark.parametrize(("function", "op"), IN_A_GRAPH)
def test_in_a_graph_sizes_that_a_call_finds_have_no_bound(
    function: Callable[..., Any], op: str
) -> None:
    """An eager call computes the number first, and runs control flow step by step."""
    optimized = tf_exla.optimize(function, 10**9)
    with pytest.raises(tf_exla.UnboundedMemoryError) as info:
        tf.function(lambda x: optimized(x) + 0)(SMALL)
    assert info.value.op == op
    with warnings.catch_warnings():
        warnings.simplefilter("error", tf_exla.UnboundedMemoryWarning)
        found = optimized(SMALL)
    np.testing.assert_allclose(found, tf.function(function)(SMALL))


BOUNDED: dict[str, Callable[[tf.Tensor], Any]] = {
    "fixed shape": lambda x: tf.ensure_shape(_shaped(x), x.shape) + 1.0,
    "at most": lambda x: tf.repeat(x, tf.minimum(tf.cast(tf.abs(x[:, 0]) * 3, tf.int32), 2), 0),
    "clipped": lambda x: tf.range(tf.clip_by_value(tf.cast(x[0, 0] * 9, tf.int32), 0, 99)),
    "histogram": lambda x: tf.math.bincount(tf.cast(tf.abs(x[:, 0]), tf.int32), maxlength=9),
    "sets": lambda x: (
        tf.sets.difference(*(tf.cast(one, tf.int64) for one in (x[:3], x[3:6]))).values
    ),
    "segments": lambda x: tf.math.segment_sum(x, tf.argmax(x, 1) // 50),
    "equal segments": lambda x: tf.math.segment_sum(x, tf.range(30) * 7 // 30),
    "segments of what is left": lambda x: _in_seven(tf.boolean_mask(x, x[:, 0] > 0)),
    "counted segments": lambda x: tf.math.segment_sum(
        x, tf.truncatediv(tf.cumsum(tf.cast(x[:, 0] > 0, tf.int32)) + 2, 4)
    ),
    "boxes": lambda x: tf.image.non_max_suppression(
        *(tf.cast(one, tf.float32) for one in (tf.abs(x[:, :4]), x[:, 5])), 7
    ),
    "best": lambda x: tf.math.top_k(x[:, 0], k=tf.reduce_sum(tf.cast(x[:, 1] > 0, tf.int32)))[0],
    "broadcast": lambda x: tf.boolean_mask(x, x[:, 0] > 0)[:, None] * x[:1],
    "exponential": lambda x: tf.linalg.expm(-_gram(x[:6]) * 0.01),
    "sorted rows": lambda x: _gradient(lambda y: tf.sort(_positive(y), 1), x),
    "best of rows": lambda x: _gradient(lambda y: tf.math.top_k(_positive(y), 3)[0], x),
    "largest of columns": lambda x: _gradient(lambda y: tf.reduce_max(_positive(y), 0), x),
    "each size": lambda x: tf.zeros(tf.unstack(tf.shape(_positive(x)))),
    "batches": lambda x: tf.einsum(
        "...lji,ljk->...lik", tf.reshape(_positive(x), [-1, 2, 5, 5]), tf.ones([2, 5, 3], x.dtype)
    ),
    "squares": lambda x: tf.reduce_sum(tf.reshape(_gram(x), [tf.shape(_gram(x))[0], -1]), 0),
    "static segments": lambda x: _gradient(
        lambda y: tf.sort(tf.math.segment_max(y, tf.range(30) // 4 * 3), 1), x
    ),
    "static means": lambda x: tf.linalg.expm(
        tf.sparse.segment_mean(x[:, :3], tf.range(30), tf.range(30) // 10)
    ),
    "large static segments": lambda x: tf.math.segment_sum(
        tf.repeat(x, 100, 0), tf.constant([k // 50 for k in range(3000)])
    ),
    "static parts": lambda x: tf.stack(tf.dynamic_partition(x, tf.range(30) % 3, 3)),
    "nothing": lambda x: tf.boolean_mask(x, x[:, 0] > 1e9),
    "strings": lambda x: tf.boolean_mask(tf.as_string(x), x > 0),
    "padded spectrum": lambda x: tf.signal.rfft2d(
        tf.cast(tf.boolean_mask(x, x[:, 0] > 0), tf.float32)
    ),
    "gradient of a part": lambda x: _gradient(lambda y: tf.boolean_mask(y, y[:, 0] > 0)[1:7, 3], x),
}


def _positive(x: tf.Tensor) -> tf.Tensor:
    return tf.boolean_mask(x, x[:, 0] > 0)


def _gram(x: tf.Tensor) -> tf.Tensor:
    return tf.matmul(_positive(x), _positive(x), transpose_b=True)


def _in_seven(x: tf.Tensor) -> tf.Tensor:
    count = tf.shape(x)[0]
    return tf.math.segment_sum(x, tf.range(count) * 7 // count)


def _gradient(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.sin(function(x)))
    return tape.gradient(loss, x)


def test_an_index_at_its_largest_need_not_choose_the_largest() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        sizes = tf.shape(tf.transpose(_positive(x)))  # 50, and at most 30
        return tf.zeros([tf.gather(sizes, tf.argmax(x[0, :2] * 0.0)), 10_000])

    report = tf_exla.optimize(function, 10**8).report(SMALL)
    assert report.projected_peak >= 50 * 10_000 * 4


def test_gradient_around_a_part_of_a_tensor_of_unknown_size() -> None:
    def last(x: tf.Tensor) -> tf.Tensor:
        return tf.RaggedTensor.from_row_lengths(tf.exp(x), [1, x.shape[0] - 1]).to_tensor()[1]

    optimized = tf_exla.optimize(last, 10**8)
    np.testing.assert_array_equal(_gradient(optimized, SMALL), _gradient(last, SMALL))


def test_report_before_the_first_call_of_a_function_with_an_iterator() -> None:
    batches = iter(tf.data.Dataset.range(50).repeat().batch(50))

    def step(x: tf.Tensor) -> tf.Tensor:
        batch = tf.cast(next(batches), x.dtype)
        return _gradient(lambda y: tf.reduce_sum(tf.exp(-((batch[:, None] - y) ** 2)), 0), x)

    optimized = tf_exla.optimize(step, 10**8)
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="IteratorGetNext"):
        optimized.report(SMALL[:, 0])
    assert optimized(SMALL[:, 0]).shape == [30]


def _shaped(x: tf.Tensor) -> tf.Tensor:
    made = tf.numpy_function(lambda one: one, [x], x.dtype)
    made.set_shape(x.shape)
    return made


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_runs_as_it_was(name: str, recwarn: pytest.WarningsRecorder) -> None:
    stock = tf.function(BOUNDED[name], autograph=False)
    np.testing.assert_array_equal(tf_exla.optimize(stock, 10**8)(SMALL), stock(SMALL))
    assert not [one for one in recwarn if one.category is tf_exla.UnboundedMemoryWarning]


def test_elements_of_an_iterator_have_the_size_that_came(
    recwarn: pytest.WarningsRecorder,
) -> None:
    data = iter(tf.data.Dataset.from_tensor_slices(SMALL).batch(8).repeat())
    optimized = tf_exla.optimize(lambda: tf.reduce_sum(tf.exp(next(data))), 10**8)
    np.testing.assert_allclose(optimized(), tf.reduce_sum(tf.exp(SMALL[:8])))
    assert not [one for one in recwarn if one.category is tf_exla.UnboundedMemoryWarning]
    (report,) = optimized.reports()
    assert not [note for note in report.notes if "not counted" in note]


COUNT = tf.Variable(601)


def identity_of_a_variables_size(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """The size comes from a variable; the matrix to which the identity is added bounds it."""
    gram = tf.matmul(x[:601], x[:601], transpose_b=True)
    return tf.linalg.cholesky(gram + tf.eye(tf.convert_to_tensor(COUNT), dtype=x.dtype) * 2.0)[-1]


def ones_of_a_variables_size(x: tf.Tensor, keep: tf.Tensor) -> Any:
    ones = tf.transpose(tf.reshape(tf.ones([COUNT * 3], x.dtype), [3, -1]))
    return tf.reduce_sum(tf.where(keep[:601, None], x[:601, :3], ones * 2.0))


@pytest.mark.parametrize("function", [identity_of_a_variables_size, ones_of_a_variables_size])
def test_what_reads_a_tensor_bounds_it(function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", tf_exla.UnboundedMemoryWarning)
        report = tf_exla.explain(function, X, ALL, limit="1GB")
    assert report.projected_peak < 30_000_000
    np.testing.assert_allclose(
        tf_exla.optimize(function, "1GB")(X, ALL), function(X, ALL), rtol=1e-10
    )


def test_strings_are_said_to_be_counted_without_their_characters() -> None:
    report = tf_exla.explain(lambda x: tf.strings.length(tf.as_string(x)), SMALL, limit=10**8)
    assert [one for one in report.notes if one.startswith("strings are counted as 24 bytes each")]


def _rows(x: tf.Tensor) -> tf.Tensor:
    """Return a number of at most 65,536; times 65,536 it is more than an int32 holds."""
    return tf.shape(tf.boolean_mask(x, x > 0.5))[0]


def multiplied(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(tf.zeros([_rows(x) * 65536], x.dtype) + x[0]))


def multiplied_as_long(x: tf.Tensor) -> tf.Tensor:
    count = tf.cast(tf.cast(_rows(x), tf.int64) * 65536, tf.int32)
    return tf.reduce_sum(tf.exp(tf.zeros([count], x.dtype) + x[0]))


def multiplied_with_a_bound(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(tf.zeros([tf.minimum(_rows(x), 9) * 65536], x.dtype) + x[0]))


@pytest.mark.parametrize(
    ("function", "most"),
    [(multiplied, 2**31 - 1), (multiplied_as_long, 2**31 - 1), (multiplied_with_a_bound, 9 << 16)],
)
def test_the_bound_of_a_product_does_not_overflow(function: Callable[..., Any], most: int) -> None:
    x = tf.zeros([1 << 16], tf.float64)
    projected = tf_exla.explain(function, x, limit=10**12).projected_peak
    assert 8 * most <= projected <= 3 * 8 * most + (1 << 22)


def test_a_warning_names_the_arguments_of_unknown_size() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.exp(tf.fill([tf.shape(x)[0], 3], y[0])))

    specs = (tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([None], tf.float64))
    with pytest.warns(tf_exla.UnboundedMemoryWarning, match="depends on x, y, whose sizes") as told:
        tf_exla.explain(function, *specs, limit="2MB")
    assert "Fill" in str(told[0].message)
