"""Copies of nodes, which compute the same numbers again."""

from __future__ import annotations

from collections.abc import Iterable

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import with_subgraphs


def copy_nodes(nodes: Iterable[Node], copies: dict[Tensor, Tensor]) -> list[Node]:
    """Copy nodes and their sub-graphs; the copy of a result has it as its `origin`.

    `copies`: those of the tensors that the nodes read. The copies of their results are added.
    """
    made: list[Node] = []
    for node in nodes:
        inner = with_subgraphs(node, _copied)
        inputs = tuple(copies[tensor] for tensor in node.inputs)
        copies.update((tensor, tensor.copy()) for tensor in node.outputs)
        outputs = tuple(copies[tensor] for tensor in node.outputs)
        made.append(inner.replace(inputs=inputs, outputs=outputs))
    return made


def _copied(graph: Graph) -> Graph:
    copies = {tensor: tensor.fresh_copy() for tensor in graph.inputs}
    nodes = copy_nodes(graph.nodes, copies)
    inputs, outputs = ([copies[t] for t in tensors] for tensors in (graph.inputs, graph.outputs))
    return Graph(tuple(inputs), tuple(nodes), tuple(outputs))
