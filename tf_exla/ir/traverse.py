"""Walk graphs: definitions and uses, sub-graphs, orders."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tf_exla.ir.graph import Graph, Loop, Node, Tensor


def producers(graph: Graph) -> dict[Tensor, Node]:
    """Map every tensor that a node makes to this node."""
    return {tensor: node for node in graph.nodes for tensor in node.outputs}


def consumers(graph: Graph) -> dict[Tensor, list[tuple[Node, int]]]:
    """Map every tensor to the operands that read it: (node, position of the operand)."""
    uses: dict[Tensor, list[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for position, tensor in enumerate(node.inputs):
            uses.setdefault(tensor, []).append((node, position))
    return uses


def reads(graph: Graph) -> set[Tensor]:
    """Return the tensors that nodes of a graph read, and its outputs."""
    return {tensor for node in graph.nodes for tensor in node.inputs} | set(graph.outputs)


def walk(graph: Graph) -> Iterator[Node]:
    """Yield every node of a graph and of its sub-graphs."""
    for node in graph.nodes:
        yield from walk_node(node)


def walk_node(node: Node) -> Iterator[Node]:
    """Yield a node, and every node of its sub-graphs."""
    yield node
    for _, sub in node.subgraphs:
        yield from walk(sub)


def without_dead(graph: Graph) -> Graph:
    """Drop the pure nodes that no output and no stateful node needs."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node.stateful or any(tensor in needed for tensor in node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return graph.replace(nodes=tuple(reversed(kept)))


def with_subgraphs(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """Map the sub-graphs of a node, a loop's too; the same node where none changed."""
    if not node.subgraphs:
        return node
    subs = {key: change(sub) for key, sub in node.subgraphs}
    if all(subs[key] is sub for key, sub in node.subgraphs):
        return node
    if isinstance(node, Loop):
        return dataclasses.replace(node, body=subs["body"], remainder=subs.get("remainder"))
    return dataclasses.replace(node, attrs={**node.attrs, **subs})


class CycleError(ValueError):
    """Nodes that wait for each other."""


def topological(nodes: Iterable[Node], key: Callable[[Node], Any]) -> tuple[Node, ...]:
    """Sort nodes so that producers come before consumers, by least `key` among those ready.

    Stateful nodes keep the order in which they are given. Raises CycleError where there is none.
    """
    nodes = tuple(nodes)
    made_by = {tensor: node for node in nodes for tensor in node.outputs}
    waiting: dict[Node, int] = {}
    followers: dict[Node, list[Node]] = {node: [] for node in nodes}
    last_stateful: Node | None = None
    for node in nodes:
        before = {made_by[tensor] for tensor in node.inputs if tensor in made_by}
        if node.stateful:
            if last_stateful is not None:
                before.add(last_stateful)
            last_stateful = node
        waiting[node] = len(before)
        for producer in before:
            followers[producer].append(node)
    heap = [(key(node), i, node) for i, node in enumerate(nodes) if not waiting[node]]
    position = {node: i for i, node in enumerate(nodes)}
    heapq.heapify(heap)
    ordered: list[Node] = []
    while heap:
        _, _, node = heapq.heappop(heap)
        ordered.append(node)
        for follower in followers[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(heap, (key(follower), position[follower], follower))
    if len(ordered) != len(nodes):
        stuck = next(node for node in nodes if waiting[node])
        raise CycleError(f"the graph has a cycle through {stuck}")
    return tuple(ordered)
