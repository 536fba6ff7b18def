"""Stages: clusters between the nodes that XLA does not compile, in an order that is one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tf_exla.frontends.numpy.evaluate import evaluate
from tf_exla.frontends.numpy.trace import Array, Tracer
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.traverse import without_dead
from tf_exla.late.staging import stage

LEFT = ("tanh", "sqrt")


def compiles(node: Node) -> bool:
    return node.op not in LEFT


def clusters(graph: Graph) -> list[list[str]]:
    """Return the ops of each cluster, constants left out."""
    return [
        [node.op for node in sub.nodes if node.op != "constant"]
        for node in graph.nodes
        for _, sub in node.subgraphs
    ]


def drawn(rng: Random) -> Graph:
    """Return a random graph in which some ops are not compiled."""
    xp = Tracer()
    pool: list[Array] = [xp.input((3, 4)) for _ in range(2)]
    for _ in range(rng.randint(2, 25)):
        a, b = rng.choice(pool[-5:]), rng.choice(pool)
        kind = rng.choice(["add", "exp", "tanh", "sqrt", "twice"])
        if kind == "add":
            pool.append(a + b)
        elif kind == "twice":
            pool.append(a * 2.0)
        elif kind == "sqrt":
            pool.append(xp.sqrt(a * a))
        else:
            pool.append(xp.exp(xp.tanh(a)) if kind == "exp" else xp.tanh(a))
    return without_dead(xp.graph(pool[-1], *rng.sample(pool[2:], 2)))


@pytest.mark.parametrize("seed", range(40))
def test_results_are_the_same(seed: int) -> None:
    graph = drawn(Random(seed))
    made = stage(graph, compiles)
    check_graph(made, graph)
    assert all(node.op in LEFT or node.subgraphs or node.op == "constant" for node in made.nodes)
    assert all(op not in LEFT for cluster in clusters(made) for op in cluster)
    x = [np.random.default_rng(seed).normal(size=(3, 4)) for _ in range(2)]
    for found, wanted in zip(evaluate(made, *x), evaluate(graph, *x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_node_that_reads_nothing_of_a_cluster_does_not_divide_it() -> None:
    xp = Tracer()
    x, y = xp.input((3, 4)), xp.input((3, 4))
    a = xp.exp(x)
    graph = xp.graph(xp.exp(a + xp.tanh(y)))
    assert clusters(stage(graph, compiles)) == [["exp", "add", "exp"]]


def test_a_node_that_reads_a_cluster_ends_it() -> None:
    xp = Tracer()
    x = xp.input((3, 4))
    a = xp.exp(x)
    graph = xp.graph(xp.exp(a + xp.tanh(a)))
    assert clusters(stage(graph, compiles)) == [["exp"], ["add", "exp"]]


def test_what_is_not_compiled_keeps_its_order() -> None:
    """Effects are among it."""
    for seed in range(20):
        graph = drawn(Random(seed))
        names = [node.op for node in graph.nodes if node.op in LEFT]
        assert [node.op for node in stage(graph, compiles).nodes if node.op in LEFT] == names
