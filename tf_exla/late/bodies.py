"""Visits of the graphs that a late pass may change."""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.ir.traverse import with_subgraphs


def everywhere(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Apply `change` to a graph and all its sub-graphs, each once and the innermost first.

    Bodies of loops in a bitwise group are left out. Return the same graph if nothing changed.
    """
    return _Everywhere(change).graph(graph)


class _Everywhere:
    """One visit.

    It is a class, since a nested function that calls itself is a reference cycle, which would keep
    alive all that `change` refers to.
    """

    def __init__(self, change: Callable[[Graph], Graph]) -> None:
        self.change = change
        self.done: dict[Graph, Graph] = {}

    def graph(self, sub: Graph) -> Graph:
        if sub not in self.done:
            nodes = [inside_of(node, self.graph) for node in sub.nodes]
            self.done[sub] = self.change(sub.with_nodes(nodes))
        return self.done[sub]


def inside_of(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """Apply `change` to the sub-graphs of a node, except for a loop in a bitwise group."""
    if isinstance(node, Loop) and node.bitwise_group is not None:
        return node
    return with_subgraphs(node, change)
