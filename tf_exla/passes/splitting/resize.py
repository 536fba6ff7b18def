"""Making a sub-graph again for chunks of another size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tf_exla.graph import Graph, Loop, Node, Slot, Tensor
from tf_exla.op_set import OpSet


def cut(ops: OpSet, template: Graph, carried: Mapping[Tensor, Slot], size: int) -> Graph:
    """Copy a graph for a chunk of `size` indices; `carried`: which tensors shrink, and where.

    Always from the whole: of a chunk of one index an op cannot tell that its axis carries more.
    """
    return cut_with_tensors(ops, template, carried, size)[0]


def cut_with_tensors(
    ops: OpSet, template: Graph, carried: Mapping[Tensor, Slot], size: int
) -> tuple[Graph, Mapping[Tensor, Tensor]]:
    """Copy a graph as `cut` does; return its tensors too, by those of the template."""
    mirror: dict[Tensor, Tensor] = {}
    for tensor in template.inputs:
        slot = carried.get(tensor)
        shape = chunk_shape(tensor, slot, size)
        value = tensor.value if slot is None else None  # each chunk has another part of it
        mirror[tensor] = Tensor(shape, tensor.dtype, tensor.name, value, tensor.held)
    nodes: list[Node] = []
    for node in template.nodes:
        if node.op == "Const":
            made: tuple[Node, ...] = (_fresh(node),)
        else:
            operands = [mirror[tensor] for tensor in node.inputs]
            shapes = [chunk_shape(tensor, carried.get(tensor), size) for tensor in node.outputs]
            made = ops.resized(node, operands, shapes)
        nodes.extend(made)
        mirror.update(zip(node.outputs, made[-1].outputs, strict=True))
    inputs = tuple(mirror[tensor] for tensor in template.inputs)
    outputs = tuple(mirror[tensor] for tensor in template.outputs)
    return Graph(inputs, tuple(nodes), outputs), mirror


def chunk_shape(tensor: Tensor, slot: Slot | None, size: int) -> tuple[int | None, ...]:
    """Return the shape of a tensor of which a chunk has `size` indices."""
    if slot is None:
        assert tensor.shape is not None
        return tensor.shape
    shape = list(tensor.dims)
    shape[slot.axis] = size * slot.block
    return tuple(shape)


def _fresh(node: Node) -> Node:
    """Copy a Const, so that each graph defines its own tensors."""
    old = node.output
    new = Tensor(old.shape, old.dtype, old.name, old.value)
    return dataclasses.replace(node, outputs=(new,))


def resize_loop(
    ops: OpSet, loop: Loop, chunk: int, parallel: int, known: dict[int, Graph] | None = None
) -> Loop:
    """Make a loop again with another chunk and its remainder, its bodies without loops.

    `known`: bodies that were cut from the same template before, by size; those cut now join them.
    """
    bodies = {} if known is None else known

    def body(size: int) -> Graph:
        if size not in bodies:
            bodies[size] = cut(ops, loop.template, loop.carried, size)
        return bodies[size]

    chunk = min(max(chunk, loop.least), loop.extent)
    if chunk == loop.chunk and parallel == loop.parallel:
        return loop
    rest = loop.extent % chunk
    return dataclasses.replace(
        loop,
        chunk=chunk,
        parallel=min(parallel, loop.extent // chunk),
        body=body(chunk),
        remainder=body(rest) if rest else None,
    )
