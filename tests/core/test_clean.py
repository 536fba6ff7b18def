"""Clean-up on printed graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_exla.frontends.numpy import trace
from tf_exla.ir.clean import clean
from tf_exla.vocabulary.op_set import VocabularyOps


def test_repeated_nodes_become_one() -> None:
    graph = clean(trace(lambda xp, x: xp.exp(x) @ xp.exp(x), (3, 3)), VocabularyOps())
    assert [node.op for node in graph.nodes] == ["exp", "matmul"]
    assert clean(graph, VocabularyOps()) is graph


def test_large_repeated_nodes_may_stay_apart() -> None:
    """They are known to be copies; what is small is merged all the same."""

    def fn(xp: Any, x: Any) -> Any:
        return [xp.sum(xp.exp(x), axis=0) for _ in range(2)]

    ops = VocabularyOps()
    graph = clean(trace(fn, (3, 3)), ops, apart=72)
    assert [node.op for node in graph.nodes] == ["exp", "constant", "sum"]
    graph = clean(trace(fn, (3, 3)), ops, apart=24)
    assert [node.op for node in graph.nodes] == ["exp", "constant", "sum", "exp", "sum"]
    first, again = (node.output for node in graph.nodes if node.op == "exp")
    assert again.origin is first
    assert clean(graph, ops).nodes == graph.nodes[:3]


def test_other_attributes_or_constants_are_no_repetition() -> None:
    graph = trace(lambda xp, x: [xp.sum(x, axis=0) * 1.0, xp.sum(x, axis=1) * 2.0], (3, 3))
    assert clean(graph, VocabularyOps()) is graph


def test_stateful_nodes_stay_once_each_and_dead_nodes_go() -> None:
    def fn(xp: Any, x: Any) -> Any:
        for _ in range(2):
            xp.one("Opaque", [x], x.shape, stateful=True)
        xp.exp(x)
        return x + x

    graph = clean(trace(fn, (3,)), VocabularyOps())
    assert [node.op for node in graph.nodes] == ["Opaque", "Opaque", "add"]


def test_constants_of_equal_value_merge() -> None:
    graph = clean(trace(lambda xp, x: x + np.ones(3) + np.ones(3), (3,)), VocabularyOps())
    assert [node.op for node in graph.nodes] == ["constant", "add", "add"]
