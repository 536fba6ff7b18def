"""Making a graph again with tensors of other shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tf_exla.graph import Graph, Node, Shape, Tensor
from tf_exla.op_set import OpSet


def resized_graph(
    ops: OpSet,
    template: Graph,
    inputs: Mapping[Tensor, Tensor],
    shape_of: Callable[[Tensor], Shape],
) -> tuple[Graph, Mapping[Tensor, Tensor]]:
    """Copy a graph for other inputs; `shape_of`: what each tensor that its nodes make becomes.

    Returns the copy's tensors too, by those of the template.
    """
    mirror = dict(inputs)
    nodes: list[Node] = []
    for node in template.nodes:
        if node.op == "Const":
            made: tuple[Node, ...] = (_fresh(node),)
        else:
            operands = [mirror[tensor] for tensor in node.inputs]
            made = ops.resized(node, operands, [shape_of(tensor) for tensor in node.outputs])
        nodes.extend(made)
        mirror.update(zip(node.outputs, made[-1].outputs, strict=True))
    new_inputs = tuple(mirror[tensor] for tensor in template.inputs)
    outputs = tuple(mirror[tensor] for tensor in template.outputs)
    return Graph(new_inputs, tuple(nodes), outputs), mirror


def _fresh(node: Node) -> Node:
    """Copy a Const, so that each graph defines its own tensors."""
    old = node.output
    new = old.twin()
    return dataclasses.replace(node, outputs=(new,))
