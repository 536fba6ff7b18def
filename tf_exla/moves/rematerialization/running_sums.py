"""Running sums: a sum of many tensors is accumulated as these are computed.

The gradient of a value that each step of a program reads is the sum of one tensor for each step.
The sum runs after the last of them is computed, so all of them are alive until then.
"""

from __future__ import annotations

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.model.lifetimes import CHAIN_BYTES

_EXACT_ENOUGH = frozenset({"float32", "float64", "complex64", "complex128"})
"""Dtypes for which sums are added pair by pair. In a shorter dtype each addition would round, while
a kernel that adds several tensors at once rounds once."""


def add_at_once(graph: Graph, ops: OpSet) -> Graph:
    """Return a graph in which sums of three large tensors or more are added pair by pair.

    Each tensor is added to the running sum as soon as it is computed.
    """
    made_at = {tensor: at for at, node in enumerate(graph.nodes) for tensor in node.outputs}
    after: dict[int, list[Node]] = {}
    sums: set[Node] = set()
    for node in graph.nodes:
        if node.op != "add_n" or len(node.inputs) < 3 or node.output.nbytes < CHAIN_BYTES:
            continue
        if node.is_open or node.output.dtype not in _EXACT_ENOUGH:
            continue
        first, *others = sorted(node.inputs, key=lambda tensor: made_at.get(tensor, -1))
        builder, total = Builder(node, ops), first
        try:
            for tensor in others:
                total = builder.op("add", total, tensor)
        except Refusal:
            continue
        sums.add(node)
        for tensor, added in zip(others, builder.ended(node.output), strict=True):
            after.setdefault(made_at.get(tensor, -1), []).append(added)
    if not sums:
        return graph
    nodes = list(after.get(-1, ()))
    for at, node in enumerate(graph.nodes):
        if node not in sums:
            nodes.append(node)
        nodes += after.get(at, ())
    return graph.with_nodes(nodes)
