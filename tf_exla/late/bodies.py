"""Visit the graphs that a late pass may change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.ir.traverse import with_subgraphs


def everywhere(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Change a graph, the bodies of its loops, and all other sub-graphs, each of them once."""

    @cache
    def inside(sub: Graph) -> Graph:
        nodes = tuple(inside_of(node, inside) for node in sub.nodes)
        if any(new is not old for new, old in zip(nodes, sub.nodes, strict=True)):
            sub = sub.replace(nodes=nodes)
        return change(sub)

    return inside(graph)


def inside_of(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """Change the sub-graphs of a node, but not of a loop whose bits must stay the same."""
    if isinstance(node, Loop) and node.bitwise_group is not None:
        return node
    return with_subgraphs(node, change)
