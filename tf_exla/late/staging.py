"""Staging: the parts of a program that XLA compiles become clusters, between all other nodes.

XLA is slow at some work for which there are libraries. On a GPU it factorizes a matrix column by
column: in a step of SGPR with 500 inducing points, a thousand such iterations were 4,000 of 5,300
launches. Other ops, such as prints, cannot be compiled at all.

A node that no cluster may contain is placed before the current cluster if it reads no result of it.
Otherwise the cluster ends there. So reads of variables do not divide clusters.
"""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.late.compiling import cluster, without_unused


def stage(graph: Graph, compiles: Callable[[Node], bool]) -> Graph:
    """Return a graph whose compiled nodes are in clusters; stateful nodes keep their order.

    `compiles`: tells whether XLA compiles a node; it must be False for stateful nodes.
    """
    made = [node for node in graph.nodes if node.op == "constant"]
    for before, run in _stages(graph, compiles):
        merged = cluster(graph, run)
        made += before
        made += run if merged is None else [merged]
    return graph.with_nodes(without_unused(made, graph.outputs))


def _stages(graph: Graph, compiles: Callable[[Node], bool]) -> list[tuple[list[Node], list[Node]]]:
    """Divide nodes into stages: each is (nodes that are not compiled, nodes of one cluster)."""
    before: list[Node] = []
    run: list[Node] = []
    inside: set[Tensor] = set()
    stages = [(before, run)]
    for node in graph.nodes:
        if node.op == "constant":
            continue
        if compiles(node):
            run.append(node)
            inside.update(node.outputs)
            continue
        if not inside.isdisjoint(node.inputs):
            before, run, inside = [], [], set()
            stages.append((before, run))
        before.append(node)
    return stages
