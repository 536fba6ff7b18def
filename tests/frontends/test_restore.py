"""Restored graphs: loops with every combiner, enforced order, effects, no folding."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.frontends.tf.capture import Captured, capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import Restored, restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Array, Graph, Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.late.compiling import compile_loops

RNG = np.random.default_rng(0)


def captured(fn: Any, *specs: Any) -> Captured:
    return capture(tf.function(fn, autograph=False).get_concrete_function(*specs))


def spec(*shape: int, dtype: Any = tf.float64) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


def body_of(fn: Any, *specs: Any) -> Graph:
    """Trace a loop's body; its inputs are the arguments, and it has no captures."""
    made = captured(fn, *specs)
    assert not made.constants
    assert made.inputs == len(specs)
    return made.graph


def loop_graph(
    fn: Any,
    inputs: list[tf.TensorSpec],
    slots: list[SplitAxis | None],
    results: list[LoopResult],
    extent: int,
    chunk: int,
    parallel: int = 1,
) -> Graph:
    """A graph with one loop over chunks of `fn`."""

    def cut(size: int) -> Graph:
        specs = []
        for whole, slot in zip(inputs, slots, strict=True):
            shape = list(whole.shape)
            if slot is not None:
                shape[slot.axis] = size * slot.block
            specs.append(tf.TensorSpec(shape, whole.dtype))
        return body_of(fn, *specs)

    body = cut(chunk)
    remainder = cut(extent % chunk) if extent % chunk else None
    outer = tuple(Tensor(tuple(s.shape), s.dtype.name, f"in{k}") for k, s in enumerate(inputs))
    outputs = []
    for k, (made, result) in enumerate(zip(body.outputs, results, strict=True)):
        shape = list(made.dims)
        if result.slot is not None:
            shape[result.slot.axis] = extent * result.slot.block
        outputs.append(Tensor(tuple(shape), made.dtype, f"out{k}"))
    loop = Loop(
        "loop",
        outer,
        tuple(outputs),
        name="loop",
        extent=extent,
        chunk=chunk,
        body=body,
        remainder=remainder,
        slots=tuple(slots),
        results=tuple(results),
        parallel=parallel,
    )
    graph = Graph(outer, (loop,), tuple(outputs))
    check_graph(graph)
    return graph


def call(graph: Graph, *values: Any) -> list[np.ndarray]:
    return [t.numpy() for t in restore(graph)([tf.constant(v) for v in values])]


def draw(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return RNG.random(shape) < 0.7
    if dtype.startswith(("int", "uint")):
        return RNG.integers(-9 if dtype.startswith("int") else 0, 9, shape).astype(dtype)
    values = RNG.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 1j * RNG.normal(size=shape)
    return values.astype(dtype)


REDUCTIONS = [
    ("add", tf.reduce_sum, ["float16", "float32", "float64", "int32", "int64", "complex128"]),
    ("mul", tf.reduce_prod, ["float32", "float64", "int64", "complex64"]),
    ("max", tf.reduce_max, ["float32", "float64", "int32", "uint8"]),
    ("min", tf.reduce_min, ["float32", "float64", "int64"]),
    ("and", tf.reduce_all, ["bool"]),
    ("or", tf.reduce_any, ["bool"]),
]


@pytest.mark.parametrize("chunk", [4, 5, 23], ids=["remainder", "small remainder", "whole"])
@pytest.mark.parametrize(
    ("combine", "reduce", "dtype"), [(c, r, d) for c, r, ds in REDUCTIONS for d in ds]
)
def test_reductions(combine: Any, reduce: Any, dtype: str, chunk: int) -> None:
    x = draw((23, 3), dtype)
    graph = loop_graph(
        lambda x: reduce(x, axis=0),
        [spec(23, 3, dtype=dtype)],
        [SplitAxis(0)],
        [LoopResult(combine)],
        23,
        chunk,
    )
    (got,) = call(graph, x)
    # Chunks reorder the additions and products: a few units of rounding.
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(
        got, reduce(tf.constant(x), axis=0).numpy(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("combine", ["max", "min"])
def test_nan_is_kept(combine: Any) -> None:
    reduce = tf.reduce_max if combine == "max" else tf.reduce_min
    graph = loop_graph(
        lambda x: reduce(x, axis=0), [spec(10, 2)], [SplitAxis(0)], [LoopResult(combine)], 10, 4
    )
    x = RNG.normal(size=(10, 2))
    x[1, 0] = np.nan
    np.testing.assert_array_equal(call(graph, x)[0], reduce(x, axis=0).numpy())


def reversed_in_chunks(
    shape: list[int], dtype: str, slot: SplitAxis, extent: int, chunk: int, parallel: int = 1
) -> tuple[Array, Graph, Array]:
    """Reverse another axis than the slot's: what goes in, the loop, what comes out."""
    shape[slot.axis] = extent * slot.block
    x = draw(tuple(shape), dtype)
    other = 2 if slot.axis != 2 else 0
    graph = loop_graph(
        lambda x: tf.reverse(x, [other]),
        [spec(*shape, dtype=dtype)],
        [slot],
        [LoopResult("concat", slot)],
        extent,
        chunk,
        parallel,
    )
    return x, graph, np.flip(x, other)


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "complex128"])
@pytest.mark.parametrize(("axis", "block"), [(0, 1), (1, 1), (1, 3), (2, 1)])
def test_concat(axis: int, block: int, dtype: str, parallel: int) -> None:
    x, graph, expected = reversed_in_chunks(
        [4, 4, 4], dtype, SplitAxis(axis, block), 11, 3, parallel
    )
    np.testing.assert_array_equal(call(graph, x)[0], expected)


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128"])
@pytest.mark.parametrize(
    ("axis", "block", "chunk", "op"),
    [
        (0, 1, 4, "InplaceUpdate"),
        (0, 1, 5, "InplaceUpdate"),
        (1, 1, 4, "InplaceUpdate"),
        (1, 3, 5, "InplaceUpdate"),
        (2, 1, 5, "TensorStridedSliceUpdate"),  # single elements
        (2, 24, 4, "InplaceUpdate"),
    ],
)
def test_rows_are_written_in_place(axis: int, block: int, chunk: int, op: str, dtype: str) -> None:
    x, graph, expected = reversed_in_chunks([3, 3, 20], dtype, SplitAxis(axis, block), 12, chunk)
    function = restore(graph)
    op = "TensorStridedSliceUpdate" if dtype == "complex128" else op
    assert op.encode() in function.graph.as_graph_def().SerializeToString()
    first, second = (function([tf.constant(value)])[0] for value in (x, 2 * x))
    np.testing.assert_array_equal(first.numpy(), expected)  # the second call has its own buffer
    np.testing.assert_array_equal(second.numpy(), 2 * expected)


def test_several_results_and_whole_inputs() -> None:
    rng = np.random.default_rng(0)  # of `RNG`, what comes depends on the tests before
    x, a = rng.normal(size=(50, 4)), rng.normal(size=(4, 4))
    graph = loop_graph(
        lambda x, a: (tf.matmul(x, a), tf.matmul(x, x, transpose_a=True), tf.reduce_max(x), x),
        [spec(50, 4), spec(4, 4)],
        [SplitAxis(0), None],
        [
            LoopResult("concat", SplitAxis(0)),
            LoopResult("add"),
            LoopResult("max"),
            LoopResult("concat", SplitAxis(0)),
        ],
        50,
        8,
    )
    product, gram, largest, copy = call(graph, x, a)
    np.testing.assert_allclose(product, x @ a, rtol=1e-13)
    np.testing.assert_allclose(gram, x.T @ x, rtol=1e-12)
    assert largest == x.max()
    np.testing.assert_array_equal(copy, x)


@pytest.mark.parametrize("compiled", [False, True])
def test_loop_in_loop(compiled: bool) -> None:
    """A kernel matrix in tiles: rows outside, columns inside."""
    x, y, v = RNG.normal(size=(20, 1)), RNG.normal(size=(14, 1)), RNG.normal(size=(14, 1))

    def tile(x: Any, y: Any, v: Any) -> Any:
        return tf.matmul(tf.exp(x - tf.transpose(y)), v), tf.exp(x - tf.transpose(y))

    def rows(size: int) -> Graph:
        return loop_graph(
            tile,
            [spec(size, 1), spec(14, 1), spec(14, 1)],
            [None, SplitAxis(0), SplitAxis(0)],
            [LoopResult("add"), LoopResult("concat", SplitAxis(1))],
            14,
            4,
        )

    outer = tuple(
        Tensor(shape, "float64", name)
        for shape, name in (((20, 1), "x"), ((14, 1), "y"), ((14, 1), "v"))
    )
    outputs = (Tensor((20, 1), "float64", "o"), Tensor((20, 14), "float64", "k"))
    loop = Loop(
        "loop",
        outer,
        outputs,
        extent=20,
        chunk=6,
        body=rows(6),
        remainder=rows(2),
        slots=(SplitAxis(0), None, None),
        results=(LoopResult("concat", SplitAxis(0)), LoopResult("concat", SplitAxis(0))),
    )
    graph = Graph(outer, (loop,), outputs)
    check_graph(graph)
    if compiled:
        graph = compile_loops(graph, TensorFlowOps(), forced=True)
        check_graph(graph)
    product, kernel = call(graph, x, y, v)
    np.testing.assert_allclose(kernel, np.exp(x - y.T), rtol=1e-13)
    np.testing.assert_allclose(product, np.exp(x - y.T) @ v, rtol=1e-12)


def test_compiled_body() -> None:
    x = RNG.normal(size=(50, 4))
    graph = loop_graph(
        lambda x: (tf.reduce_sum(tf.exp(x)), tf.exp(x)),
        [spec(50, 4)],
        [SplitAxis(0)],
        [LoopResult("add"), LoopResult("concat", SplitAxis(0))],
        50,
        8,
    )
    function = restore(compile_loops(graph, TensorFlowOps(), forced=True))
    assert b"_XlaMustCompile" in function.function.definition.SerializeToString()
    total, exp = (t.numpy() for t in function([tf.constant(x)]))
    np.testing.assert_allclose(total, np.exp(x).sum(), rtol=1e-13)
    np.testing.assert_allclose(exp, np.exp(x), rtol=1e-13)


def chain_of(function: Restored) -> list[str]:
    """The types of the ops that a control dependency puts after another, in order."""
    return [op.type for op in function.graph.get_operations() if op.control_inputs]


def test_large_nodes_are_chained_in_the_order_of_the_graph() -> None:
    def fn(x: Any) -> Any:
        a, b, c = tf.exp(x), tf.sin(x), tf.cos(x)
        return tf.reduce_sum(a), tf.reduce_sum(b), tf.reduce_sum(c)

    graph = captured(fn, spec(100, 100)).graph
    order = {node.op: node for node in graph.nodes if node.op in ("exp", "sin", "cos")}
    sums = {node.inputs[0]: node for node in graph.nodes if node.op == "sum"}
    constants = [node for node in graph.nodes if node.op == "constant"]
    results = [node for node in graph.nodes if node.op == "identity"]
    plan: list[Node] = []
    for op in ("cos", "exp", "sin"):
        plan += [order[op], sums[order[op].output]]
    graph = graph.replace(nodes=(*constants, *plan, *results))
    function = restore(graph)
    assert chain_of(function) == ["Sum", "Exp", "Sum", "Sin", "Sum"]
    small = restore(captured(fn, spec(3)).graph)
    assert chain_of(small) == []


def test_constants_are_not_folded_into_large_ones() -> None:
    """A Fill of constants would otherwise be kept by TensorFlow between calls."""
    graph = captured(lambda x: x + tf.zeros([1000], tf.float64), spec(1000)).graph
    function = restore(graph)
    (fill,) = (op for op in function.graph.get_operations() if op.type == "Fill")
    assert fill.inputs[1].op.type == "Placeholder"
    assert len(function.anchors) == 1
    np.testing.assert_array_equal(function([tf.ones(1000, tf.float64)])[0], np.ones(1000))


def test_constants_in_loops_are_not_folded() -> None:
    graph = loop_graph(
        lambda x: tf.reduce_sum(x * tf.fill([500], np.float64(2)), axis=0),
        [spec(10, 500)],
        [SplitAxis(0)],
        [LoopResult("add")],
        10,
        2,
    )
    function = restore(graph)
    assert len(function.anchors) == 2  # the zeros that sums start from, and the filled value
    x = RNG.normal(size=(10, 500))
    np.testing.assert_allclose(function([tf.constant(x)])[0], 2 * x.sum(0), atol=1e-12)


def test_calls_keep_the_plan() -> None:
    """Neither an eager call nor an outer function's optimizer inlines or rewrites the function."""
    graph = captured(lambda x: tf.reduce_sum(tf.exp(x)), spec(100, 100)).graph
    function = restore(graph)
    assert function.function.definition.attr["_noinline"].b

    @tf.function
    def outer(x: Any) -> Any:
        (total,) = function([x])
        return total + 1

    x = RNG.normal(size=(100, 100))
    np.testing.assert_allclose(outer(x), np.exp(x).sum() + 1, rtol=1e-12)
    (node,) = (
        op for op in outer.get_concrete_function(x).graph.get_operations() if "Call" in op.type
    )
    config = tf.compat.v1.ConfigProto.FromString(node.get_attr("config_proto"))
    assert config.graph_options.rewrite_options.disable_meta_optimizer


def test_static_shapes_are_kept() -> None:
    graph = captured(lambda x: tf.reshape(x, [20]), spec(4, 5)).graph
    unknown = dataclasses.replace(graph.outputs[0], shape=(20,))
    assert restore(graph).graph.outputs[0].shape == unknown.shape


def in_place_peak() -> tuple[int, int]:
    """Bytes of a concatenated result, and the working set of the call that makes it."""
    from tf_exla.frontends.tf.measuring.measure import measured_peak

    rows = 400_000
    graph = loop_graph(
        tf.exp, [spec(rows, 8)], [SplitAxis(0)], [LoopResult("concat", SplitAxis(0))], rows, 3000
    )
    function = restore(graph)
    x = tf.ones([rows, 8], tf.float64)
    outer = tf.function(lambda x: tf.reduce_sum(function([x])[0]))
    return rows * 64, max(measured_peak(outer, x).working_set, measured_peak(outer, x).working_set)


def test_results_are_concatenated_in_place() -> None:
    """A TensorArray, or a copying update, would need twice the result."""
    result, working_set = run_fresh(in_place_peak)
    assert 0.9 * result < working_set < 1.3 * result


def chained_peak() -> tuple[int, int]:
    """Bytes of one of four large tensors, and the working set of the chained program."""
    from tf_exla.frontends.tf.measuring.measure import measured_peak

    def fn(x: Any) -> Any:
        parts = [f(x + k) for k, f in enumerate((tf.exp, tf.sin, tf.cos, tf.tanh))]
        return sum(tf.reduce_sum(part) for part in parts)

    x = tf.ones([1000, 2000], tf.float64)
    graph = captured(fn, spec(1000, 2000)).graph
    # Depth first: as each part is made, it is summed.
    parts = [n for n in graph.nodes if n.op in ("exp", "sin", "cos", "tanh")]
    sums = {n.inputs[0]: n for n in graph.nodes if n.op == "sum"}
    adds = {n.output: n for n in graph.nodes if n.op == "add"}
    order = [n for n in graph.nodes if n.op == "constant"]
    for part in parts:
        before = [adds[t] for t in part.inputs if t in adds]
        order += [*before, part, sums[part.output]]
    order += [n for n in graph.nodes if n not in order]
    function = restore(graph.replace(nodes=tuple(order)))
    outer = tf.function(lambda x: function([x])[0])
    return 16_000_000, measured_peak(outer, x).working_set


def test_the_order_bounds_the_peak() -> None:
    """In an outer function, too: nothing inlines the plan and runs it side by side."""
    one, working_set = run_fresh(chained_peak)
    assert working_set < 1.4 * one


@pytest.mark.parametrize("first", [True, False])
def test_tensors_of_many_axes(first: bool) -> None:
    """Kernels of slices accept eight axes; parts of tensors with more are read and written."""

    def function(x: Any) -> Any:
        e = tf.exp(x)
        rows = tf.reduce_max(e, -1, keepdims=True)
        return tf.reduce_sum(e * tf.sin(e), -1), tf.reduce_sum(e), rows

    dims = [500, 1, 2, 1, 1, 2, 1, 1, 40] if first else [2, 1, 500, 1, 2, 1, 1, 2, 40]
    x = tf.constant(np.random.default_rng(0).normal(size=dims))
    with pytest.raises(tf_exla.MemoryLimitError) as caught:
        tf_exla.optimize(function, 1, strict=True)(x)
    error = caught.value
    assert error.smallest_limit < 0.9 * error.projected_peak
    for limit in (error.smallest_limit, (error.smallest_limit + error.projected_peak) // 2):
        found = tf_exla.optimize(function, limit, strict=True)(x)
        for one, want in zip(found, tf.function(function)(x), strict=True):
            np.testing.assert_allclose(one, want, 1e-12)
