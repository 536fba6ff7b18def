"""Rows of random tensors: the same bits as among all rows, by TensorFlow's own ops."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.nodes.names import tensorflow_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.moves.random_rows import random_rows
from tf_exla.vocabulary import random_rows as vocabulary

OPS = TensorFlowOps()
UNIFORM, NORMAL = "stateless_uniform", "stateless_normal"
INTEGERS, ALL_INTEGERS = "stateless_uniform_int", "stateless_uniform_full_int"
TRUNCATED = "stateless_truncated_normal"
FLOATS = ("float16", "bfloat16", "float32", "float64")
KINDS = [
    *((op, dtype) for op in (UNIFORM, NORMAL, TRUNCATED) for dtype in FLOATS),
    *((INTEGERS, dtype) for dtype in ("int32", "int64")),
    *((ALL_INTEGERS, dtype) for dtype in ("int32", "int64", "uint32", "uint64")),
]
COUNTERS = ([77, 5], [2**64 - 3, 5], [2**64 - 1, 2**64 - 1])


def draw(op: str, dtype: str, rest: tuple[int, ...], counter: tf.Tensor, alg: int = 1) -> Any:
    """Draw 9 rows."""
    shape = [9, *rest]
    key = tf.constant([123456789], tf.uint64)
    if op == INTEGERS:
        bounds = [tf.constant(value, dtype) for value in (3, 1000)]
        attrs = {"minval": bounds[0], "maxval": bounds[1]}
    else:
        attrs = {"dtype": tf.as_dtype(dtype)}
    return getattr(tf.raw_ops, tensorflow_name(op))(
        shape=shape, key=key, counter=counter, alg=alg, **attrs
    )


def program(op: str, dtype: str, rest: tuple[int, ...], counter: Any, alg: int = 1) -> Graph:
    def function(counter: tf.Tensor) -> Any:
        return draw(op, dtype, rest, counter, alg)

    captured = capture(tf.function(function).get_concrete_function(counter))
    return random_rows(captured.graph, OPS, 0)


@pytest.mark.each_value
@pytest.mark.parametrize("rest", [(8,), (7,), (5, 1)], ids=str)
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_law(op: str, dtype: str, rest: tuple[int, ...]) -> None:
    counter = tf.constant(COUNTERS[0], tf.uint64)
    graph = program(op, dtype, rest, counter)
    (node,) = (node for node in graph.nodes if node.op == "random_rows")
    rule = OPS.rule(node)
    assert isinstance(rule, AxisRule)
    assert str(rule).startswith("a, b, =, _, _, _")
    assert rule.labels() == ("a", "b")
    for values in COUNTERS:
        counter = tf.constant(values, tf.uint64)
        whole = np.asarray(draw(op, dtype, rest, counter))
        for start, stop in pairwise((0, 1, 4, 9)):
            numbers = tf.range(start, stop, dtype=tf.int64)
            found = drawn(graph, node, counter, (numbers, None))
            assert found.tobytes() == whole[start:stop].tobytes()


def drawn(
    graph: Graph, node: Node, counter: tf.Tensor, numbers: tuple[tf.Tensor | None, ...]
) -> npt.NDArray[Any]:
    """Draw the rows and columns of these numbers alone; None: all of them."""
    operands, shape = list(node.inputs), list(node.output.dims)
    cuts: list[Tensor] = []
    for k, one in enumerate(numbers):
        if one is not None:
            shape[k] = one.shape[0]
            operands[k] = Tensor((shape[k],), "int64", f"numbers{k}")
            cuts.append(operands[k])
    nodes = OPS.resized(node, operands, [tuple(shape)])
    made = [n for n in graph.nodes if n.op in ("arange", "constant")]
    cut = Graph((*graph.inputs, *cuts), (*made, *nodes), nodes[-1].outputs)
    given = [one for one in numbers if one is not None]
    return np.asarray(restore(cut)([counter, *given])[0])


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("block", "long"), [(1 << 18, 2000), (800, 2000), (0, 0)], ids=["once", "blocks", "rows"]
)
@pytest.mark.parametrize("rest", [(24,), (23,), (7, 3)], ids=str)
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_law_of_columns(
    op: str,
    dtype: str,
    rest: tuple[int, ...],
    block: int,
    long: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of some columns, each row has its own place among the numbers."""
    monkeypatch.setattr(vocabulary, "BLOCK_BYTES", block)
    monkeypatch.setattr(vocabulary, "_LONG", long)
    counter = tf.constant(COUNTERS[1], tf.uint64)
    graph = program(op, dtype, rest, counter)
    (node,) = (node for node in graph.nodes if node.op == "random_rows")
    whole = np.asarray(draw(op, dtype, rest, counter))
    for begin, end in pairwise((0, 1, 4, rest[0])):
        columns = tf.range(begin, end, dtype=tf.int64)
        for start, stop in ((0, 9), (2, 3), (3, 9)):
            rows = None if stop - start == 9 else tf.range(start, stop, dtype=tf.int64)
            found = drawn(graph, node, counter, (rows, columns))
            assert found.tobytes() == whole[start:stop, begin:end].tobytes()


@pytest.mark.parametrize(
    ("rest", "alg", "split"), [((7,), 3, True), ((7,), 2, False), ((), 1, False), ((1,), 1, False)]
)
def test_which_are_split(rest: tuple[int, ...], alg: int, split: bool) -> None:
    """Not another algorithm's, nor a list, whose row numbers would be as large."""
    counter = tf.constant(COUNTERS[0], tf.uint64)
    graph = program(NORMAL, "float64", rest, counter, alg)
    assert any(node.op == "random_rows" for node in graph.nodes) == split
    if split:
        (found,) = restore(graph)([counter])
        np.testing.assert_array_equal(found, draw(NORMAL, "float64", rest, counter, alg))


def shaped(*shape: int, dtype: str = "float32") -> Graph:
    def function(counter: tf.Tensor) -> Any:
        return tf.raw_ops.StatelessRandomNormalV2(
            shape=shape, key=tf.constant([7], tf.uint64), counter=counter, alg=1, dtype=dtype
        )

    counter = tf.constant(COUNTERS[1], tf.uint64)
    captured = capture(tf.function(function).get_concrete_function(counter))
    made = random_rows(captured.graph, OPS, 0)
    (found,) = restore(made)([counter])
    np.testing.assert_array_equal(found, function(counter))
    return made


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((9, 8), 9),
        ((1, 9, 8), 9),
        ((1, 1, 9, 3, 2), 9),
        ((3, 5, 64), 15),
        ((3, 5, 63), 3),
        ((2, 3, 5, 67), 30),
        ((2, 3, 5, 13), 6),
        ((1, 9), None),
        ((1, 9, 1), None),
    ],
    ids=str,
)
def test_rows_of_several_axes(shape: tuple[int, ...], rows: int | None) -> None:
    """Axes of size one in front are no rows; rows of a batch of matrices are numbered together."""
    found = [node for node in shaped(*shape).nodes if node.op == "random_rows"]
    assert [node.output.dims[0] for node in found] == ([] if rows is None else [rows])


@pytest.mark.parametrize("batch", [(1,), (4,), (1, 3)], ids=str)
@pytest.mark.parametrize("size", [600, 601, 602])
def test_matrices_of_a_batch_are_split(batch: tuple[int, ...], size: int) -> None:
    """Attention with dropout and its gradient, where one matrix exceeds the limit."""
    x = tf.random.stateless_normal([*batch, size, 8], [1, 2])

    def function(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            weights = tf.nn.softmax(tf.matmul(x, x, transpose_b=True))
            weights = tf.nn.experimental.stateless_dropout(weights, 0.3, seed=[3, 4])
            loss = tf.reduce_sum(tf.square(tf.matmul(weights, x)))
        return [loss, tape.gradient(loss, x)]

    optimized = tf_exla.optimize(function, 3_000_000, strict=True)
    assert optimized.report(x).projected_peak_before > 4_000_000
    for found, expected in zip(optimized(x), tf.function(function)(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
