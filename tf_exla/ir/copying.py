"""Copies of nodes, which compute the same numbers again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import with_subgraphs, without_dead


def copy_nodes(nodes: Iterable[Node], copies: dict[Tensor, Tensor]) -> list[Node]:
    """Return copies of nodes and of their sub-graphs.

    Each copied result has the original as its `origin`. `copies`: replacements of the tensors that
    the nodes read; the copy of each result is added to it.
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


def put_before(
    inputs: Sequence[Tensor], before: Sequence[Node], names: dict[Tensor, Tensor], branch: Graph
) -> Graph:
    """Return a branch of a choice with the nodes `before` in front, and with other `inputs`.

    `names`: replacements of inputs of the branch. If one is replaced by an optional that `before`
    makes, the branch reads the value of the optional directly.
    """
    wrapped = {one.output: one.inputs for one in before if one.op == "optional"}
    nodes = list(before)
    for old in branch.nodes:
        node = old.substitute(names)
        values = wrapped.get(node.inputs[0]) if node.op == "optional_value" else None
        if values is not None and _alike(values, node.outputs):
            names.update(zip(node.outputs, values, strict=True))
        else:
            nodes.append(node)
    outputs = tuple(names.get(tensor, tensor) for tensor in branch.outputs)
    return without_dead(Graph(tuple(inputs), tuple(nodes), outputs))


def _alike(values: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Return whether values have the dtypes and shapes of the results that they replace."""
    return all(
        value.dtype == result.dtype and (value.dtype in HANDLES or value.shape == result.shape)
        for value, result in zip(values, results, strict=True)
    )
