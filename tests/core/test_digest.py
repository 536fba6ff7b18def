"""Digests of graphs: equal for the same program, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tf_exla.frontends.numpy import trace
from tf_exla.ir.digest import LARGEST_CONSTANTS, digest
from tf_exla.ir.graph import Graph, Node, Tensor

X = np.ones((5, 3))


def program(xp: Any, x: Any) -> Any:
    return xp.sum(xp.exp(x * 2.0), axis=1)


def with_node(graph: Graph, at: int, **changes: Any) -> Graph:
    node = graph.nodes[at]
    return graph.replace(nodes=(*graph.nodes[:at], node.replace(**changes), *graph.nodes[at + 1 :]))


def of_constant(value: Any) -> Graph:
    array = np.asarray(value)
    made = Tensor(array.shape, array.dtype.name, "c")
    node = Node("constant", (), (made,), {"value": value})
    return Graph((), (node,), (made,))


def test_the_same_program_has_the_same_digest() -> None:
    one, two = trace(program, X), trace(program, X)
    assert one.nodes[0] is not two.nodes[0]
    assert digest(one) == digest(two) is not None


def test_names_do_not_count() -> None:
    graph = trace(program, X)
    assert digest(with_node(graph, 0, name="another")) == digest(graph)


OTHERS: dict[str, Callable[[], Graph]] = {
    "size": lambda: trace(program, np.ones((5, 4))),
    "dtype": lambda: trace(program, X.astype("float32")),
    "op": lambda: trace(lambda xp, x: xp.sum(xp.tanh(x * 2.0), axis=1), X),
    "attribute": lambda: trace(lambda xp, x: xp.sum(xp.exp(x * 2.0), axis=0), X),
    "constant": lambda: trace(lambda xp, x: xp.sum(xp.exp(x * 3.0), axis=1), X),
    "edge": lambda: trace(lambda xp, x: xp.sum(xp.exp(x * x), axis=1), X),
    "result": lambda: trace(lambda xp, x: xp.exp(x * 2.0), X),
    "line": lambda: with_node(trace(program, X), 1, source="other.py:1"),
    "effects": lambda: with_node(trace(program, X), 1, stateful=True),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_differs(what: str) -> None:
    assert digest(OTHERS[what]()) != digest(trace(program, X))


def test_order_of_operands_and_results() -> None:
    def difference(xp: Any, x: Any, y: Any) -> Any:
        return x - y, x + y

    graph = trace(difference, X, X)
    a, b = graph.nodes[0].inputs
    assert digest(with_node(graph, 0, inputs=(b, a))) != digest(graph)
    assert digest(graph.replace(outputs=graph.outputs[::-1])) != digest(graph)


def test_constants_of_equal_value_and_different_type() -> None:
    values = [1, 1.0, True, "1", b"1", (1,), np.int32(1), np.int64(1), np.array([1]), -0.0, 0.0]
    digests = [digest(of_constant(value)) for value in values]
    assert None not in digests
    assert len(set(digests)) == len(values)
    assert digest(of_constant(np.nan)) == digest(of_constant(np.nan))


def test_strings() -> None:
    one, two = (np.array([text, b"b"], object) for text in (b"a", b"c"))
    assert digest(of_constant(one)) == digest(of_constant(one.copy()))
    assert digest(of_constant(one)) != digest(of_constant(two))


def test_subgraphs() -> None:
    def nested(inner: Graph) -> Graph:
        x = Tensor((5, 3), "float64", "x")
        made = Tensor((5,), "float64", "y")
        return Graph((x,), (Node("call", (x,), (made,), {"body": inner}),), (made,))

    same = nested(trace(program, X))
    assert digest(same) == digest(nested(trace(program, X)))
    assert digest(same) != digest(nested(OTHERS["constant"]()))


def test_held_bytes() -> None:
    """Of a variable behind a handle."""
    graph = trace(program, X)

    def held(size: int) -> Graph:
        handle = Tensor((), "resource", "variable", held=size)
        return graph.replace(inputs=(*graph.inputs, handle))

    assert len({digest(graph), digest(held(8)), digest(held(16))}) == 3


def test_what_has_no_digest() -> None:
    assert digest(of_constant(np.zeros(LARGEST_CONSTANTS // 8 + 1))) is None
    assert digest(of_constant(np.zeros(LARGEST_CONSTANTS // 8))) is not None
    assert digest(of_constant(lambda: 0)) is None
    graph = trace(program, X)
    copied = replace(graph.nodes[0], outputs=(graph.nodes[0].output.copy(),))
    assert digest(graph.replace(nodes=(copied,), outputs=copied.outputs)) is None
