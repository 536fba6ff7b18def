"""Blocks of rows of a tensor, computed from slices of its sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Loop, Node, SplitAxis, Tensor
from tf_exla.model.cost import LIKELY
from tf_exla.moves.user_loops.row_index import Read, Rows
from tf_exla.split.loops.resize import cut


def place_of(w: Builder, index: Tensor | int, read: Read, rows: Rows) -> Tensor:
    """Return the position in the whole tensor of row `index`; -1 if it is outside of the rows."""
    if isinstance(index, int):
        index = w.const(index)
    kind = index.dtype
    if read.wraps:
        back = w.op("add", index, w.const(rows.size, kind))
        index = w.op("where", w.op("greater_equal", index, w.const(0, kind)), index, back)
    if (rows.first, rows.step) == (0, 1) and rows.size == rows.whole.dims[read.axis]:
        return index
    inside = w.op(
        "logical_and",
        w.op("greater_equal", index, w.const(0, kind)),
        w.op("less_equal", index, w.const(rows.size - 1, kind)),
    )
    place = w.op("multiply", index, w.const(rows.step, kind))
    place = w.op("add", place, w.const(rows.first, kind))
    return w.op("where", inside, place, w.const(-1, kind))


@dataclass(frozen=True, eq=False)
class Blocks:
    """How a tensor is computed in blocks of `size` indices: as chunks of `loop`, from `sources`."""

    loop: Loop
    sources: Sequence[Tensor]
    size: int

    @property
    def slot(self) -> SplitAxis:
        """Where the tensor carries the axis of the loop."""
        slot = self.loop.results[0].slot
        assert slot is not None
        return slot


def start_of(w: Builder, place: Tensor, blocks: Blocks) -> Tensor:
    """Return the first index of the block that contains a row."""
    slot, size, extent = blocks.slot, blocks.size, blocks.loop.extent
    kind = place.dtype
    block = w.op("floor_divide", place, w.const(size * slot.block, kind))
    start = w.op("multiply", block, w.const(size, kind))
    start = w.op("minimum", start, w.const(extent - size, kind))
    # An index out of range is also out of range in the block, so reading it fails as before.
    return w.op("maximum", start, w.const(0, kind))


def row_of(w: Builder, place: Tensor, start: Tensor, block: Tensor, slot: SplitAxis) -> Tensor:
    """Take the row at position `place` from the block that begins at index `start`."""
    first = w.op("multiply", start, w.const(slot.block, place.dtype))
    return w.op("take", block, w.op("subtract", place, first), w.const(slot.axis))


def made_block(w: Builder, start: Tensor, blocks: Blocks) -> Tensor:
    """Compute a block from slices of its sources."""
    loop = blocks.loop
    body = cut(w.ops, loop.template, loop.split_axes, blocks.size)
    known: dict[Tensor, Tensor] = {}
    for inner, source, slot in zip(body.inputs, blocks.sources, loop.slots, strict=True):
        known[inner] = source if slot is None else _slice(w, source, start, slot, blocks.size)
    w.nodes += [one.substitute(known) for one in body.nodes]
    return known.get(body.outputs[0], body.outputs[0])


def _slice(w: Builder, source: Tensor, start: Tensor, slot: SplitAxis, size: int) -> Tensor:
    unit = [slot.block if axis == slot.axis else 0 for axis in range(len(source.dims))]
    shape = list(source.dims)
    shape[slot.axis] = size * slot.block
    begin = w.op("multiply", start, w.const(unit, start.dtype))
    return w.op("slice", source, begin, w.const(shape, start.dtype))


def kept_block(w: Builder, start: Tensor, held: Tensor, before: Tensor, blocks: Blocks) -> Tensor:
    """Return the block that begins at index `start`.

    It is `before`, the block of the previous iteration, if that began at the same index (`held`).
    Otherwise it is computed.
    """
    same = w.op("equal", start, held)
    operands = (start, before, *blocks.sources)
    old = [tensor.fresh_copy() for tensor in operands]
    new = [tensor.fresh_copy() for tensor in operands]
    inner = Builder(Node("cond", (), (), name=w.name, source=w.source), w.ops)
    made = made_block(inner, new[0], dataclasses.replace(blocks, sources=new[2:]))
    branches: dict[str, object] = {
        "then_branch": Graph(tuple(old), (), (old[1],)),
        "else_branch": Graph(tuple(new), tuple(inner.nodes), (made,)),
        LIKELY: "then_branch",
    }
    block = before.fresh_copy()
    name = f"{w.name}/block"
    w.nodes.append(Node("cond", (same, *operands), (block,), branches, name=name, source=w.source))
    return block
