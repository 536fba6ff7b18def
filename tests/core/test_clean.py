"""Clean-up on printed graphs."""

from __future__ import annotations

import numpy as np

from core.toy import Builder, ToyOps
from tf_exla.ir.clean import clean


def test_repeated_nodes_become_one() -> None:
    b = Builder()
    x = b.input(3, 3)
    first, second = b.op("exp", x), b.op("exp", x)
    graph = clean(b.graph(b.op("matmul", first, second)), ToyOps())
    assert [node.op for node in graph.nodes] == ["exp", "matmul"]
    assert clean(graph, ToyOps()) is graph


def test_other_attributes_or_constants_are_no_repetition() -> None:
    b = Builder()
    x = b.input(3, 3)
    rows, columns = b.op("sum", x, axis=0), b.op("sum", x, axis=1)
    one, two = b.const(1.0), b.const(2.0)
    graph = b.graph(b.op("multiply", rows, one), b.op("multiply", columns, two))
    assert clean(graph, ToyOps()) is graph


def test_stateful_nodes_stay_once_each_and_dead_nodes_go() -> None:
    b = Builder()
    x = b.input(3)
    b.op("Opaque", x, stateful=True)
    b.op("Opaque", x, stateful=True)
    b.op("exp", x)
    graph = clean(b.graph(b.op("add", x, x)), ToyOps())
    assert [node.op for node in graph.nodes] == ["Opaque", "Opaque", "add"]


def test_constants_of_equal_value_merge() -> None:
    b = Builder()
    x = b.input(3)
    one, again = b.const(np.ones(3)), b.const(np.ones(3))
    graph = clean(b.graph(b.op("add", b.op("add", x, one), again)), ToyOps())
    assert [node.op for node in graph.nodes] == ["constant", "add", "add"]
