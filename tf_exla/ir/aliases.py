"""Aliases: nodes that only give a buffer another shape or another name.

XLA fuses through them, and they cost nothing. A slice that happens to be a view is no alias: in
XLA's code it is a copy or a part of a fusion.
"""

from __future__ import annotations

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet


def is_alias(ops: OpSet, node: Node) -> bool:
    """Return whether the only output is all of the first input, perhaps in another shape."""
    if not node.inputs or len(node.outputs) != 1 or not ops.aliases(node):
        return False
    return node.output.nbytes == node.inputs[0].nbytes


def roots(ops: OpSet, graph: Graph) -> dict[Tensor, Tensor]:
    """Map every alias in a graph to the tensor that it is an alias of; omit other tensors."""
    found: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        if is_alias(ops, node):
            source = node.inputs[0]
            found[node.output] = found.get(source, source)
    return found


def readers_through(ops: OpSet, graph: Graph) -> dict[Tensor, list[Node]]:
    """Map tensors to their consumers, which include the consumers of their aliases.

    A consumer appears once for each operand. Aliases themselves are no consumers.
    """
    root = roots(ops, graph)
    readers: dict[Tensor, list[Node]] = {}
    for node in graph.nodes:
        if not is_alias(ops, node):
            for tensor in node.inputs:
                readers.setdefault(root.get(tensor, tensor), []).append(node)
    return readers
