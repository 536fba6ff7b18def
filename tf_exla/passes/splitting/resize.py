"""Making a sub-graph again for chunks of another size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tf_exla.graph import Graph, Loop, Node, Slot, Tensor
from tf_exla.op_set import OpSet


@dataclass(frozen=True, eq=False)
class Piece:
    """A sub-graph of one chunk, and where its tensors carry the loop's axis."""

    graph: Graph
    carried: Mapping[Tensor, Slot]


def cut(
    ops: OpSet,
    nodes: Sequence[Node],
    inputs: Sequence[tuple[Tensor, Slot | None]],
    outputs: Sequence[Tensor],
    slots: Mapping[Tensor, Slot],
    size: int,
) -> Piece:
    """Copy `nodes` for a chunk of `size` indices.

    `inputs`: tensors from outside with the slot in which they are read; the same tensor may be
    read under two slots, and then each reader in `nodes` must have been told apart by
    `slot_of`-like bookkeeping of the caller: a node reads the input whose slot is in `slots`.
    """
    mirror: dict[Tensor, Tensor] = {}
    carried: dict[Tensor, Slot] = {}
    new_inputs: list[Tensor] = []
    for tensor, slot in inputs:
        new = Tensor(_shape(tensor, slot, size), tensor.dtype, tensor.name, tensor.value, tensor.held)
        new_inputs.append(new)
        mirror[tensor] = new
        if slot is not None:
            carried[new] = slot
    new_nodes: list[Node] = []
    for node in nodes:
        if node.op == "Const":
            made: tuple[Node, ...] = (_fresh(node),)
        else:
            operands = [mirror[tensor] for tensor in node.inputs]
            shapes = [_shape(tensor, slots.get(tensor), size) for tensor in node.outputs]
            made = ops.resized(node, operands, shapes)
        new_nodes.extend(made)
        for old, new in zip(node.outputs, made[-1].outputs, strict=True):
            mirror[old] = new
            if old in slots:
                carried[new] = slots[old]
    graph = Graph(tuple(new_inputs), tuple(new_nodes), tuple(mirror[t] for t in outputs))
    return Piece(graph, MappingProxyType(carried))


def _shape(tensor: Tensor, slot: Slot | None, size: int) -> tuple[int | None, ...]:
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


def resize_loop(ops: OpSet, loop: Loop, chunk: int, parallel: int) -> Loop:
    """Make a loop again with another chunk and its remainder.

    Only for loops whose bodies hold no loops: bodies are split after the chunk is fixed.
    """
    chunk = min(chunk, loop.extent)
    rest = loop.extent % chunk
    if chunk == loop.chunk and parallel == loop.parallel:
        return loop

    def body(size: int) -> Piece:
        return cut(
            ops,
            loop.body.nodes,
            tuple(zip(loop.body.inputs, loop.slots, strict=True)),
            loop.body.outputs,
            loop.carried,
            size,
        )

    full = body(chunk)
    return dataclasses.replace(
        loop,
        chunk=chunk,
        parallel=min(parallel, loop.extent // chunk),
        body=full.graph,
        remainder=body(rest).graph if rest else None,
        carried=full.carried,
    )
