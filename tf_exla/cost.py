"""Estimated run time of nodes, loops and graphs, to compare plans by.

Few constants, in seconds; only ratios matter.
"""

from __future__ import annotations

from tf_exla.graph import Graph, Loop, Node
from tf_exla.op_set import OpSet
from tf_exla.top_k import top_k_seconds

FLOP = 2e-11  # one core's fused multiply-adds in a matrix product, two cores together
BYTE = 1e-10  # reading or writing main memory
CACHED_BYTE = 3e-11  # the same in a chunk that stays in cache
LAUNCH = 5e-6  # the executor's work for one node
ITERATION = 3e-5  # the executor's work for one iteration of a loop


def node_seconds(ops: OpSet, node: Node, byte: float = BYTE) -> float:
    """Estimate one run of a node."""
    if isinstance(node, Loop):
        full = ITERATION + graph_seconds(ops, node.body, CACHED_BYTE)
        rest = graph_seconds(ops, node.remainder, CACHED_BYTE) if node.remainder else 0.0
        return node.extent // node.chunk * full + rest
    if node.subgraphs:
        return sum(graph_seconds(ops, sub) for _, sub in node.subgraphs)
    if node.op == "Const":
        return 0.0
    if node.op == "TopKV2" and node.inputs[0].is_static and node.outputs[0].is_static:
        return LAUNCH + top_k_seconds(node)
    moved = 0
    if not ops.aliases(node):
        moved = sum(t.nbytes for t in node.inputs) + sum(t.nbytes for t in node.outputs)
    return LAUNCH + ops.flops(node) * FLOP + moved * byte


def graph_seconds(ops: OpSet, graph: Graph, byte: float = BYTE) -> float:
    """Estimate one run of a graph."""
    return sum(node_seconds(ops, node, byte) for node in graph.nodes)


def graph_flops(ops: OpSet, graph: Graph) -> int:
    """Return the floating-point operations of a graph, loops multiplied out."""
    total = 0
    for node in graph.nodes:
        if isinstance(node, Loop):
            total += node.extent // node.chunk * graph_flops(ops, node.body)
            total += graph_flops(ops, node.remainder) if node.remainder else 0
        elif node.subgraphs:
            total += sum(graph_flops(ops, sub) for _, sub in node.subgraphs)
        else:
            total += ops.flops(node)
    return total
