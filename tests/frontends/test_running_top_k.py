"""A running top-k is the kernel's own: ties, infinities, NaN, in any order of the chunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.frontends.tf.restore.running_top_k import RunningChunk
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Array, Graph, Loop
from tf_exla.ir.traverse import walk
from tf_exla.late.running_top_k import run_top_k
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.top_k import running_seconds, running_size
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.split.loops.resize import resize_loop
from tf_exla.split.search import split

Function = Callable[..., object]
ROWS = 160


def random(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.integers(-1000, 1000, shape)


def ties(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.integers(0, 3, shape)


def ascending(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Every chunk beats all that were before it."""
    return np.sort(random(rng, shape), 1)


def descending(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return ascending(rng, shape)[:, ::-1]


def ascending_in_one_row(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    values = random(rng, shape)
    values[3] = np.sort(values[3])
    return values


def equal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.zeros(shape)


def last(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """The largest are in the last groups, also of rows that nothing else beat."""
    values = ties(rng, shape)
    values[:, -3:] = [7, 9, 9]
    return values


FILLS = [random, ties, ascending, descending, ascending_in_one_row, equal, last]


def plan_of(function: Function, *inputs: tf.Tensor, fraction: float = 0.06) -> Graph:
    """Plan a function for a part of its working set."""
    graph = capture(tf.function(function).get_concrete_function(*inputs)).graph
    ops = TensorFlowOps()
    held = sum(tensor.nbytes for tensor in graph.inputs)
    stock = optimize_graph(graph, ops, limit=10**13)
    limit = held + int(fraction * stock.working_set_before)
    return optimize_graph(graph, ops, limit=limit, options=Options()).graph


def in_chunks(function: Function, inputs: list[tf.Tensor], chunk: int) -> Graph:
    """Split a function into chunks of a given size, with running top-k wherever they can be."""
    ops = ContractingOps(TensorFlowOps())
    graph = capture(tf.function(function).get_concrete_function(*inputs)).graph
    projector, options = Projector(ops), Options()
    budget = projector.working_set(graph) // 15  # tight: columns are split, not rows
    made = split(projector, clean(graph, ops), budget, options).graph
    nodes = [
        resize_loop(ops, node, chunk, 2) if isinstance(node, Loop) else node for node in made.nodes
    ]
    return run_top_k(made.replace(nodes=tuple(nodes)), ops)


def runs(graph: Graph) -> int:
    return sum(node.op == "running_top_k" for node in walk(graph))


def same(made: object, wanted: object) -> None:
    for one, two in zip(tf.nest.flatten(made), tf.nest.flatten(wanted), strict=True):
        assert one.dtype == two.dtype
        as_numbers = (tf.cast(tensor, tf.float64).numpy() for tensor in (one, two))
        np.testing.assert_array_equal(*as_numbers)


def scores_of(fill: Array, dtype: str, bias: Array | None = None) -> list[tf.Tensor]:
    """Return a, b, c of which a bᵀ + c is `fill` and `bias`: only chunks of it ever exist."""
    a = tf.constant(np.eye(len(fill)), dtype)
    b = tf.cast(tf.constant(np.ascontiguousarray(fill.T)), dtype)
    c = np.zeros(fill.shape[1]) if bias is None else bias
    return [a, b, tf.cast(tf.constant(c), dtype)]


def best(k: int, index: tf.DType = tf.int32) -> Function:
    def function(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values, places = tf.math.top_k(tf.matmul(a, b, transpose_b=True) + c, k, index_type=index)
        return values, places

    return function


@pytest.mark.each_value
@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.__name__)
@pytest.mark.parametrize("k", [5, 30])
def test_the_kernels_own_result(fill: Callable[..., Array], k: int) -> None:
    rng = np.random.default_rng(0)
    inputs = scores_of(fill(rng, (ROWS, 30_011)), "float32")
    graph = plan_of(best(k), *inputs)
    assert runs(graph)
    same(restore(graph)(inputs), best(k)(*inputs))


@pytest.mark.parametrize(
    ("rows", "chunk", "k"), [(1, 64, 1), (3, 72, 9), (40, 256, 2), (9, 1_021, 3)]
)
@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.__name__)
def test_where_it_would_not_pay(fill: Callable[..., Array], rows: int, chunk: int, k: int) -> None:
    x = tf.constant(fill(np.random.default_rng(6), (max(rows, 4), 12 * chunk))[:rows], tf.float32)
    values, places = tf.math.top_k(x[:, :chunk], k)
    for start in range(chunk, 12 * chunk, chunk):
        part = x[:, start : start + chunk]
        one = RunningChunk(part, tf.constant(start), k, (values, places))
        values, places = one.merged()
    same((values, places), tuple(tf.math.top_k(x, k)))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "int32"])
def test_dtypes(dtype: str) -> None:
    inputs = scores_of(ties(np.random.default_rng(1), (ROWS, 30_000)), dtype)
    for index in (tf.int32, tf.int64):
        graph = plan_of(best(7, index), *inputs)
        assert runs(graph)
        same(restore(graph)(inputs), best(7, index)(*inputs))


@pytest.mark.each_value
@pytest.mark.parametrize("where", [[5], [29_999], range(0, 30_000, 501), range(30_000)])
@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_or_infinite(what: float, where: list[int]) -> None:
    bias = np.zeros(30_000)
    bias[list(where)] = what
    inputs = scores_of(random(np.random.default_rng(2), (ROWS, 30_000)), "float32", bias)
    graph = plan_of(best(5), *inputs)
    assert runs(graph)
    same(restore(graph)(inputs), best(5)(*inputs))


@pytest.mark.each_value
@pytest.mark.parametrize("chunk", [1000, 1021, 1250])
@pytest.mark.parametrize("rest", [0, 3, 7, 997])
def test_remainders(chunk: int, rest: int) -> None:
    """Of two top-k, with remainders that are smaller than either k: both are all of them."""
    rng = np.random.default_rng(8)
    inputs = scores_of(ties(rng, (ROWS, 30 * chunk + rest)), "float32")

    def two(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> list[tf.Tensor]:
        scores = tf.matmul(a, b, transpose_b=True) + c
        return [*tf.math.top_k(scores, 5), *tf.math.top_k(scores, 10)]

    graph = in_chunks(two, inputs, chunk)
    assert runs(graph) == (4 if rest else 2)
    check_graph(graph)
    same(restore(graph)(inputs), two(*inputs))


def test_a_loop_that_looks_for_equal_numbers_stays() -> None:
    inputs = scores_of(ties(np.random.default_rng(9), (ROWS, 30_000)), "float32")

    def nearest(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        scores = tf.matmul(a, b, transpose_b=True) + c
        least = tf.math.top_k(scores, 5).values[:, -1:]
        return tf.reduce_sum(tf.cast(scores >= least, tf.int32), 1)

    graph = plan_of(nearest, *inputs)
    for loop in (node for node in graph.nodes if isinstance(node, Loop)):
        assert loop.bitwise_group is None or not runs(loop.body)
    same(restore(graph)(inputs), nearest(*inputs))


def test_saved(tmp_path: Path) -> None:
    inputs = scores_of(random(np.random.default_rng(10), (ROWS, 30_000)), "float32")
    held = sum(tensor.shape.num_elements() * 4 for tensor in inputs)
    optimized = tf_exla.optimize(best(5), held + 2_000_000)
    assert "running top_k" in optimized.report(*inputs).details()
    module = tf.Module()
    module.call = tf.function(lambda a, b, c: optimized(a, b, c))
    module.call.get_concrete_function(*inputs)
    tf.saved_model.save(module, str(tmp_path))
    same(tf.saved_model.load(str(tmp_path)).call(*inputs), best(5)(*inputs))


def test_batches_of_rows() -> None:
    rng = np.random.default_rng(3)
    x = tf.constant(rng.integers(-9, 9, (3, 64, 20)), tf.float32)
    y = tf.constant(rng.integers(-9, 9, (3, 30_000, 20)), tf.float32)

    def nearest(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values, places = tf.math.top_k(tf.matmul(x, y, transpose_b=True), 5)
        return values, places

    graph = plan_of(nearest, x, y)
    assert runs(graph)
    same(restore(graph)([x, y]), nearest(x, y))


def test_only_places_are_asked_for() -> None:
    inputs = scores_of(random(np.random.default_rng(4), (ROWS, 30_000)), "float32")
    graph = plan_of(lambda *args: best(5)(*args)[1], *inputs)  # type: ignore[index]
    assert runs(graph)
    same(restore(graph)(inputs), best(5)(*inputs)[1])  # type: ignore[index]


def test_few_rows_and_few_chunks_stay() -> None:
    """Where a test of every group costs more than the kernel."""
    inputs = scores_of(random(np.random.default_rng(5), (4, 30_000)), "float32")
    assert not runs(plan_of(best(5), *inputs, fraction=0.6))


def test_groups() -> None:
    assert running_size(1048) == 8
    assert running_size(1056) == 16
    assert running_size(4096) == 32
    assert running_size(1_021) == 15
    assert running_size(64) == 8
    assert running_size(8) == 0
    many, few = (running_seconds(1000, 1024, 10, chunks) for chunks in (1000, 5))
    assert many < few


def _memory(order: str, rows: int, data: int, k: int, fraction: float) -> list[int]:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (rows, 64))
    y = rng.integers(-9, 9, (data, 64))
    if order != "random":  # the nearest last: every chunk beats the ones before
        y = y[np.argsort(-(y * y).sum(1))]
        x //= 9
    inputs = [tf.constant(array, tf.float32) for array in (x, y)]

    def nearest(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        squares = tf.reduce_sum(x * x, 1)[:, None] + tf.reduce_sum(y * y, 1)
        values, places = tf.math.top_k(2.0 * tf.matmul(x, y, transpose_b=True) - squares, k)
        return values, places

    stock = tf_exla.explain(nearest, *inputs, limit=10**13)
    limit = stock.resident + int(fraction * (stock.projected_peak - stock.resident))
    optimized = tf_exla.optimize(nearest, limit)
    report = optimized.report(*inputs)
    running = any("running top_k" in str(loop) for loop in report.loops)
    equal = all(map(np.array_equal, optimized(*inputs), nearest(*inputs)))
    measured = tf_exla.measured_peak(optimized, *inputs)
    return [int(equal), int(running), int(measured), report.projected_peak, limit]


@pytest.mark.each_value
@pytest.mark.parametrize("order", ["random", "nearest last"])
@pytest.mark.parametrize(
    ("rows", "data", "k", "fraction"), [(1000, 40_000, 10, 0.05), (300, 60_011, 30, 0.1)]
)
def test_memory(order: str, rows: int, data: int, k: int, fraction: float) -> None:
    equal, running, measured, projected, limit = run_fresh(_memory, order, rows, data, k, fraction)
    assert equal
    assert running
    assert measured <= projected <= limit
