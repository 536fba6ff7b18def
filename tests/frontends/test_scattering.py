"""Scatters by rows: which programs have them, the law of the two ops, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from frontends.op_cases import ints, reals

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Array, Graph, Node, Tensor, const
from tf_exla.moves.scattering import scatter_rows

OPS = TensorFlowOps()
ROWS, WIDTH = 6, 9
COLUMNS = ints(WIDTH, ROWS, 4)


def starts() -> Any:
    return tf.range(ROWS)[:, None] * WIDTH


def flat(columns: Any, values: Any, begin: Any = None) -> Any:
    places = tf.reshape(columns + (starts() if begin is None else begin), [-1, 1])
    return tf.scatter_nd(places, tf.reshape(values, [-1]), [ROWS * WIDTH])


def in_batches(columns: Any, values: Any, outer: int = 3 * WIDTH) -> Any:
    """As in the gradient of a gather from [2, 3, WIDTH] with two batch dimensions."""
    places = tf.reshape(columns, [2, 3, 4]) + tf.reshape(tf.range(3) * WIDTH, [1, 3, 1])
    places += tf.reshape(tf.range(2) * outer, [2, 1, 1])
    return tf.math.unsorted_segment_sum(
        tf.reshape(values, [-1]), tf.reshape(places, [-1]), ROWS * WIDTH
    )


def one_of_each(columns: Any, values: Any) -> Any:
    """The gradient of a gather of one element of each row."""
    places = columns[:, 0] + tf.range(ROWS) * WIDTH
    return tf.math.unsorted_segment_sum(values[:, 0], places, ROWS * WIDTH)


def at_rows(columns: Any, rows: Any = None) -> Any:
    rows = tf.range(ROWS) if rows is None else rows
    return tf.stack([tf.repeat(rows[:, None], 4, 1), columns], -1)


# By name: the function of columns [6, 4] and values [6, 4], and whether it goes by rows.
PATTERNS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "flat": (flat, True),
    "flat, in segments": (
        lambda c, v: tf.math.unsorted_segment_sum(
            tf.reshape(v, [-1]), tf.reshape(c + starts(), [-1]), ROWS * WIDTH), True),
    "flat, the start first": (lambda c, v: flat(starts(), v, c), True),
    "two batch axes": (in_batches, True),
    "other starts of a batch": (lambda c, v: in_batches(c, v, 2 * WIDTH), False),
    "one of each row": (one_of_each, True),
    "columns from known ones": (lambda c, v: flat(c % 5 + tf.constant([[3, 0, 2, 1]]), v), True),
    "coordinates": (lambda c, v: tf.scatter_nd(at_rows(c), v, [ROWS, WIDTH]), True),
    "vectors": (
        lambda c, v: tf.scatter_nd(at_rows(c), tf.stack([v, -v], -1), [ROWS, WIDTH, 2]), True),
    "truth": (lambda c, v: tf.scatter_nd(at_rows(c), v > 0.5, [ROWS, WIDTH]), True),
    **{
        kind: (
            lambda c, v, kind=kind: getattr(tf, kind)(
                tf.ones([ROWS, WIDTH], v.dtype), at_rows(c[:, :1] + tf.range(4)), v), True)
        for kind in (
            "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min",
            "tensor_scatter_nd_sub", "tensor_scatter_nd_update")
    },
    "rows of others": (
        lambda c, v: tf.scatter_nd(at_rows(c, tf.range(ROWS)[::-1]), v, [ROWS, WIDTH]), False),
    "rows of an argument": (
        lambda c, v: tf.scatter_nd(at_rows(c, c[:, 0] % ROWS), v, [ROWS, WIDTH]), False),
    "other starts": (lambda c, v: flat(c, v, starts() // 2), False),
    "starts of columns": (lambda c, v: flat(c, v, tf.range(4)), False),
    "more rows than there are": (lambda c, v: tf.scatter_nd(at_rows(c), v, [8, WIDTH]), False),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    function, matched = PATTERNS[name]
    columns = COLUMNS % 6 if "tensor" in name else COLUMNS  # of each row once
    arguments = tf.constant(columns), tf.constant(reals(ROWS, 4))
    captured = capture(tf.function(function).get_concrete_function(*arguments))
    graph = scatter_rows(captured.graph, OPS, 0)
    found = {"scatter_rows", "update_rows"} & {node.op for node in graph.nodes}
    assert bool(found) == matched
    assert matched or graph is captured.graph
    (result,) = restore(graph)([*arguments, *captured.constants])
    np.testing.assert_array_equal(result, function(*arguments))


def test_an_index_outside_of_its_row() -> None:
    arguments = tf.constant(COLUMNS + WIDTH), tf.constant(reals(ROWS, 4))
    captured = capture(tf.function(flat).get_concrete_function(*arguments))
    graph = scatter_rows(captured.graph, OPS, 0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        restore(graph)([*arguments, *captured.constants])


def scatter(kind: str, batch: tuple[int, ...], inner: tuple[int, ...]) -> tuple[Node, list[Array]]:
    columns = ints(WIDTH, *batch, 4)
    columns = (columns[..., :1] + np.arange(4, dtype=np.int32)) % WIDTH
    operands = [columns, reals(*batch, 4, *inner)]
    shape = (*batch, WIDTH, *inner)
    attrs: dict[str, object] = {}
    if kind == "scatter_rows":
        operands.append(np.asarray(shape, np.int32))
    else:
        operands.insert(0, reals(*shape))
        attrs["scatter"] = "scatter_update"
    inputs = tuple(Tensor(x.shape, x.dtype.name, f"x{k}") for k, x in enumerate(operands))
    return Node(kind, inputs, (Tensor(shape, "float64", "y"),), attrs, name=kind), operands


def run(node: Node, values: list[Array]) -> Array:
    """Run a scatter, a shape as a constant of the program."""
    consts = [const(v, "shape") if t.name == "x2" and v.ndim == 1 else None
              for t, v in zip(node.inputs, values, strict=True)]  # fmt: skip
    inputs = tuple(c.output if c else t for t, c in zip(node.inputs, consts, strict=True))
    made = Node(node.op, inputs, node.outputs, node.attrs, name=node.name)
    given = [(t, v) for t, v, c in zip(inputs, values, consts, strict=True) if c is None]
    nodes = (*(c for c in consts if c), made)
    graph = Graph(tuple(t for t, _ in given), nodes, made.outputs)
    (result,) = restore(graph)([tf.constant(v) for _, v in given])
    return np.asarray(result)


@pytest.mark.parametrize(
    ("kind", "batch", "inner", "text"),
    [
        ("scatter_rows", (7,), (), "a b, a b, = -> a A ; add b"),
        ("scatter_rows", (3, 5), (2,), "a b c, a b c d, = -> a b A d ; add c"),
        ("update_rows", (7,), (), "a A, a B, a B -> a A"),
        ("update_rows", (3, 5), (2,), "a b A c, a b B, a b B c -> a b A c"),
    ],
)
def test_law(kind: str, batch: tuple[int, ...], inner: tuple[int, ...], text: str) -> None:
    node, values = scatter(kind, batch, inner)
    rule = OPS.rule(node)
    assert isinstance(rule, AxisRule)
    assert str(rule) == text
    whole = run(node, values)
    for label in rule.labels():
        size = rule.sizes[label]
        parts = []
        at = rule.result_axis(0, label)
        for start, stop in pairwise(sorted({0, 1, 1 + size // 2, size})):
            cut = [value.copy() for value in values]
            for k, value in enumerate(values):
                where = rule.operand_axis(k, label) if rule.operands[k] is not None else None
                if where is not None:
                    cut[k] = np.take(value, range(start, stop), where[0])
            shape = list(whole.shape)
            if at is not None:
                shape[at[0]] = stop - start
            if kind == "scatter_rows":
                cut[2] = np.asarray(shape, np.int32)
            tensors = [
                Tensor(v.shape, v.dtype.name, t.name) for t, v in zip(node.inputs, cut, strict=True)
            ]
            again = OPS.resized(node, tensors, [tuple(shape)])[-1]
            made = Node(again.op, tuple(tensors), again.outputs, again.attrs, name=again.name)
            parts.append(run(made, cut))
        joined = sum(parts) if at is None else np.concatenate(parts, at[0])
        np.testing.assert_allclose(joined, whole, 1e-13)
