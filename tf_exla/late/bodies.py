"""Visit the graphs that a late pass may change."""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.ir.traverse import with_subgraphs


def everywhere(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Change a graph, the bodies of its loops, and all other sub-graphs, each of them once."""
    return _Everywhere(change).graph(graph)


class _Everywhere:
    """One visit; a function that calls itself would keep all that `change` refers to alive."""

    def __init__(self, change: Callable[[Graph], Graph]) -> None:
        self.change = change
        self.done: dict[Graph, Graph] = {}

    def graph(self, sub: Graph) -> Graph:
        if sub not in self.done:
            nodes = [inside_of(node, self.graph) for node in sub.nodes]
            self.done[sub] = self.change(sub.with_nodes(nodes))
        return self.done[sub]


def inside_of(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """Change the sub-graphs of a node, but not of a loop whose bits must stay the same."""
    if isinstance(node, Loop) and node.bitwise_group is not None:
        return node
    return with_subgraphs(node, change)
