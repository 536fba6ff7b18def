"""Batch normalization by kernels that need nothing but channels from one pass to the other.

`FusedBatchNormV3` has a sixth result, memory of cuDNN for its gradient, of which no chunk of the
images or channels has a part. Without it, it is `FusedBatchNormV2`, and can be made for a chunk.
"""

from __future__ import annotations

import dataclasses

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import with_subgraphs

_MOMENTS = 5
"""The results of both kinds, and the operands that both gradients have."""


def without_reserve(graph: Graph) -> Graph:
    """Replace batch normalizations whose sixth result only their gradients read."""
    graph = graph.replace(
        nodes=tuple(with_subgraphs(node, without_reserve) for node in graph.nodes)
    )
    reserves = {
        node.outputs[_MOMENTS]
        for node in graph.nodes
        if node.op == "FusedBatchNormV3" and _is_plain(node)
    }
    kept: set[Tensor] = set(graph.outputs)
    for node in graph.nodes:
        gradient = node.op == "FusedBatchNormGradV3" and _is_plain(node)
        kept.update(node.inputs[:_MOMENTS] if gradient else node.inputs)
    reserves -= kept
    if not reserves:
        return graph
    return graph.replace(nodes=tuple(_replaced(node, reserves) for node in graph.nodes))


def _is_plain(node: Node) -> bool:
    return str(node.attrs.get("data_format", "NHWC")) in ("NHWC", "NCHW")


def _replaced(node: Node, reserves: set[Tensor]) -> Node:
    if node.op == "FusedBatchNormV3" and node.outputs[_MOMENTS] in reserves:
        outputs = node.outputs[:_MOMENTS]
        return dataclasses.replace(node, op="FusedBatchNormV2", outputs=outputs)
    if node.op == "FusedBatchNormGradV3" and node.inputs[_MOMENTS] in reserves:
        inputs = node.inputs[:_MOMENTS]
        return dataclasses.replace(node, op="FusedBatchNormGradV2", inputs=inputs)
    return node
