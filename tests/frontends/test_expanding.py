"""A top-k by way of groups is the kernel's own: ties, infinities, NaN, what does not divide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.graph import Array
from tf_exla.ir.traverse import walk
from tf_exla.late.expanding import expand
from tf_exla.model.top_k import find_groups

Fill = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def ties(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.round(2 * rng.standard_normal(shape))


def infinities(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = np.full(shape, -np.inf)
    values[..., rng.integers(0, shape[-1], 3)] = [1.0, np.inf, -0.0]
    return values


def holes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = rng.standard_normal(shape)
    values[..., rng.integers(0, shape[-1], 9)] = np.nan
    values[0] = np.nan
    return values


def last_hole(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = rng.standard_normal(shape)
    values[..., -1] = np.nan
    return values


def zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.integers(0, 2, shape) > 0, 0.0, -0.0)


FILLS: list[Fill] = [normal, ties, infinities, holes, last_hole, zeros]
SHAPES = [((40, 20_000), 10), ((41, 20_011), 7), ((2, 3, 180_000), 1), ((300_007,), 100),
          ((300_000,), 1), ((64, 40_009), 30)]  # fmt: skip
DTYPES = ["float32", "float64", "bfloat16", "float16", "int32", "int64"]


def expanded(function: Callable[..., object], x: tf.Tensor) -> tuple[bool, list[Array]]:
    """Return whether a function's top-k was expanded, and its results then."""
    captured = capture(tf.function(function).get_concrete_function(x))
    graph = expand(captured.graph, TensorFlowOps())
    made = restore(graph)([x])
    changed = any(node.op == "max" for node in walk(graph))
    return changed, [tensor.numpy() for tensor in made]


@pytest.mark.each_value
@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.__name__)
@pytest.mark.parametrize(("shape", "k"), SHAPES)
def test_the_kernels_own_result(fill: Fill, shape: tuple[int, ...], k: int) -> None:
    for dtype in DTYPES:
        if dtype.startswith("int") and fill is not ties:
            continue
        x = tf.cast(tf.constant(fill(np.random.default_rng(0), shape)), dtype)
        for index in (tf.int32, tf.int64):
            want = tf.math.top_k(x, k, index_type=index)
            changed, got = expanded(lambda x, i=index: tf.math.top_k(x, k, index_type=i), x)
            assert changed
            for one, two in zip(got, want, strict=True):
                assert one.dtype == two.numpy().dtype
                as_numbers = one.astype(np.float64), two.numpy().astype(np.float64)
                np.testing.assert_array_equal(*as_numbers)


def test_in_any_order() -> None:
    x = tf.random.stateless_normal((64, 30_000), (1, 2))
    changed, got = expanded(lambda x: tf.math.top_k(x, 9, sorted=False), x)
    assert changed
    np.testing.assert_array_equal(np.sort(got[1]), np.sort(tf.math.top_k(x, 9).indices))


@pytest.mark.parametrize(
    ("shape", "k"),
    [((5, 30_000), 30_000), ((64, 100), 60), ((64, 100), 1), ((0, 30_000), 3), ((64, 30_000), 0),
     ((64, 30_000), 20_000)],
)  # fmt: skip
def test_what_gains_nothing_stays(shape: tuple[int, ...], k: int) -> None:
    assert find_groups(shape, k) is None
    changed, got = expanded(lambda x: tf.math.top_k(x, k), tf.ones(shape))
    assert not changed
    assert got[1].shape == (*shape[:-1], k)


def test_groups_divide_the_row_where_they_can() -> None:
    groups = find_groups((1000, 200_000), 10)
    assert groups is not None
    assert groups.tail == 0
    assert groups.size * groups.count == 200_000
    odd = find_groups((1000, 200_003), 10)
    assert odd is not None
    assert 0 < odd.tail < odd.size
    assert odd.size * odd.count + odd.tail == 200_003


def _in_loops(rows: int, data: int, k: int, fraction: float, compiled: bool | None) -> list[int]:
    rng = np.random.default_rng(0)
    x = tf.constant(rng.integers(0, 9, (rows, 3)), tf.float32)
    y = tf.constant(rng.integers(0, 9, (data, 3)), tf.float32)

    def nearest(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        squares = tf.reduce_sum(x * x, 1)[:, None] + tf.reduce_sum(y * y, 1)
        return tf.math.top_k(2.0 * tf.matmul(x, y, transpose_b=True) - squares, k)

    stock = tf_exla.explain(nearest, x, y, limit=10**13)
    limit = stock.resident + int(fraction * (stock.projected_peak - stock.resident))
    optimized = tf_exla.optimize(nearest, limit, jit_compile=compiled)
    report = optimized.report(x, y)
    same = all(map(np.array_equal, optimized(x, y), nearest(x, y)))
    measured = tf_exla.measured_peak(optimized, x, y)
    return [int(same), int(measured), report.projected_peak, limit, len(report.loops)]


@pytest.mark.each_value
@pytest.mark.parametrize("compiled", [None, True])
@pytest.mark.parametrize(
    ("rows", "data", "k", "fraction"),
    [(200, 50_000, 10, 0.3), (211, 50_021, 5, 0.1), (1000, 20_011, 3, 0.05), (7, 400_009, 50, 0.5)],
)
def test_in_loops(rows: int, data: int, k: int, fraction: float, compiled: bool | None) -> None:
    """Integers, so that chunks round nothing, and ties by the thousand."""
    same, measured, projected, limit, loops = run_fresh(
        _in_loops, rows, data, k, fraction, compiled
    )
    assert same
    assert measured <= projected <= limit
    assert loops
