"""Rebuild a graph with tensors of other shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import with_subgraphs


def resized_graph(
    ops: OpSet,
    template: Graph,
    inputs: Mapping[Tensor, Tensor],
    shape_of: Callable[[Tensor], Shape | None],
) -> tuple[Graph, Mapping[Tensor, Tensor]]:
    """Copy a graph for inputs of other shapes.

    `inputs`: the new input for each of the template's. `shape_of`: returns the new shape of each
    tensor that the template's nodes make. Return the copy, and a map from the template's tensors to
    its own.
    """
    mirror = dict(inputs)
    nodes: list[Node] = []
    for node in template.nodes:
        if node.op == "constant":
            last = _constant(node, shape_of(node.output))
            nodes.append(last)
        else:
            operands = [mirror[tensor] for tensor in node.inputs]
            shapes = [shape_of(tensor) for tensor in node.outputs]
            if ops.resizable(node):
                made = ops.resized(node, operands, [shape or () for shape in shapes])
                nodes += made
                last = made[-1]
            else:
                last = _as_it_is(ops, node, operands, shapes)
                nodes.append(last)
        for old, new in zip(node.outputs, last.outputs, strict=True):
            mirror[old] = new
    new_inputs = tuple(mirror[tensor] for tensor in template.inputs)
    outputs = tuple(mirror[tensor] for tensor in template.outputs)
    return Graph(new_inputs, tuple(nodes), outputs), mirror


def _constant(node: Node, shape: Shape | None) -> Node:
    """Copy a constant, in another shape if all its elements are equal."""
    old = node.output
    if shape is None or shape == old.shape:
        return node.replace(outputs=(old.fresh_copy(),))
    value = np.asarray(node.attrs["value"])
    number = value.flat[0] if value.size else 0
    part = np.full([size or 0 for size in shape], number, value.dtype)
    assert bool(part.size) == bool(value.size), f"{node} cannot be made in the shape {shape}"
    outputs = (old.with_axes(shape, old.name),)
    return node.replace(outputs=outputs, attrs={**node.attrs, "value": part})


def _as_it_is(
    ops: OpSet, node: Node, operands: Sequence[Tensor], shapes: Sequence[Shape | None]
) -> Node:
    """Copy a node whose operands and results do not change their shapes."""
    pairs = zip((*node.inputs, *node.outputs), (*(t.axes for t in operands), *shapes), strict=True)
    if any(old.axes != new for old, new in pairs):
        raise ValueError(f"{node} cannot be made for other shapes")

    def copied(graph: Graph) -> Graph:
        parts = {tensor: tensor.fresh_copy() for tensor in graph.inputs}
        return resized_graph(ops, graph, parts, lambda tensor: tensor.axes)[0]

    again = with_subgraphs(node, copied)
    outputs = tuple(tensor.fresh_copy() for tensor in node.outputs)
    return again.replace(inputs=tuple(operands), outputs=outputs)
