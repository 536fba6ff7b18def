"""Traversal of graphs: definitions and uses, sub-graphs, topological orders."""

from __future__ import annotations

import heapq
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from typing import Any, TypeVar

from tf_exla.ir.graph import Graph, Loop, Node, Tensor

Item = TypeVar("Item", bound=Hashable)


def producers(graph: Graph) -> dict[Tensor, Node]:
    """Map every tensor that a node makes to that node."""
    return {tensor: node for node in graph.nodes for tensor in node.outputs}


def consumers(graph: Graph) -> dict[Tensor, list[tuple[Node, int]]]:
    """Map every tensor to its uses: (node, position of the operand)."""
    uses: dict[Tensor, list[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for position, tensor in enumerate(node.inputs):
            if tensor in uses:
                uses[tensor].append((node, position))
            else:
                uses[tensor] = [(node, position)]
    return uses


def ancestors(nodes: Iterable[Node], made_by: Mapping[Tensor, Node]) -> set[Node]:
    """Return nodes with their transitive producers."""
    found: set[Node] = set()
    work = list(nodes)
    while work:
        node = work.pop()
        if node not in found:
            found.add(node)
            work += [made_by[tensor] for tensor in node.inputs if tensor in made_by]
    return found


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


def without_dead(graph: Graph, trim: Callable[[Node, Set[Tensor]], Node] | None = None) -> Graph:
    """Return the graph without the pure nodes that no output and no stateful node needs.

    `trim(node, needed)` reduces a node that is kept to the results that are needed.
    """
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.stateful or any(tensor in needed for tensor in node.outputs):
            if trim is not None:
                node = trim(node, needed)
            needed.update(node.inputs)
            kept.append(node)
    kept.reverse()
    return graph.with_nodes(kept)


def with_subgraphs(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """Change the sub-graphs of a node, also of a `Loop`; return the same node if none changed."""
    if not node.subgraphs:
        return node
    subs = {key: change(sub) for key, sub in node.subgraphs}
    if all(subs[key] is sub for key, sub in node.subgraphs):
        return node
    if isinstance(node, Loop):
        return node.replace(body=subs["body"], remainder=subs.get("remainder"))
    return node.replace(attrs={**node.attrs, **subs})


def count_nodes(graph: Graph) -> int:
    """Return the number of nodes of a graph and of all its sub-graphs."""
    return sum(1 for _ in walk(graph))


class CycleError(ValueError):
    """Nodes that depend on each other in a cycle."""


def put_in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Sort nodes in topological order, and otherwise as they are given."""
    made_at = {tensor: at for at, node in enumerate(nodes) for tensor in node.outputs}
    if all(made_at.get(tensor, -1) < at for at, node in enumerate(nodes) for tensor in node.inputs):
        return tuple(nodes)  # the usual case
    place = {node: at for at, node in enumerate(nodes)}
    return topological(nodes, place.__getitem__)


def topological(nodes: Iterable[Node], key: Callable[[Node], Any]) -> tuple[Node, ...]:
    """Sort nodes in topological order; of nodes whose operands exist, that of the least `key` next.

    Stateful nodes keep their given order. Raises CycleError if there is no such order.
    """
    nodes = tuple(nodes)
    made_by = {tensor: node for node in nodes for tensor in node.outputs}
    before: dict[Node, set[Node]] = {}
    last_stateful: Node | None = None
    for node in nodes:
        before[node] = {made_by[tensor] for tensor in node.inputs if tensor in made_by}
        if node.stateful:
            if last_stateful is not None:
                before[node].add(last_stateful)
            last_stateful = node
    return tuple(in_order(before, key))


def in_order(before: Mapping[Item, Collection[Item]], key: Callable[[Item], Any]) -> list[Item]:
    """Sort items so that each comes after the items that `before` maps it to.

    Of the items that may come next, that of the least `key` does; items of equal keys keep their
    given order. Raises CycleError if there is no such order.
    """
    position = {item: i for i, item in enumerate(before)}
    waiting = {item: len(others) for item, others in before.items()}
    after: dict[Item, list[Item]] = {item: [] for item in before}
    for item, others in before.items():
        for other in others:
            after[other].append(item)
    heap = [(key(item), position[item], item) for item, count in waiting.items() if not count]
    heapq.heapify(heap)
    ordered: list[Item] = []
    while heap:
        _, _, item = heapq.heappop(heap)
        ordered.append(item)
        for follower in after[item]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(heap, (key(follower), position[follower], follower))
    if len(ordered) != len(before):
        stuck = next(item for item, count in waiting.items() if count)
        raise CycleError(f"the graph has a cycle through {stuck}")
    return ordered
