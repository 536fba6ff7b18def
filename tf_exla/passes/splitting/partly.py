"""Keeping in part: of a large tensor between stages, as many indices as the limit has room for.

A stage that needs a tensor of an earlier one reads it where it was kept, and computes it again
where it was not. Between the two there is every degree: the region's axis is cut in two, and the
loops of the first part keep what those of the second part compute again. What the parts come to
is combined as the chunks of a loop are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import MappingProxyType

import numpy as np

from tf_exla.graph import COMBINING, Graph, Loop, Node, Result, Slot, Tensor, const
from tf_exla.op_set import OpSet
from tf_exla.passes.splitting.index import Index
from tf_exla.passes.splitting.resize import chunk_shape, cut_with_tensors
from tf_exla.passes.splitting.stages import Stage, Stages, build_loop, replaced


class CannotPart(Exception):
    """A result cannot be combined from two parts, or the op set has no op for it."""


def keep_partly(index: Index, again: Stages, keeping: Stages, count: int) -> Graph | None:
    """Replace a region by loops that keep tensors of the first `count` indices.

    `again` computes them again in later stages, `keeping` does not. None where that cannot be.
    """
    region = again.region
    stages = list(zip(keeping.stages, again.stages, strict=False))
    if len(keeping.stages) != len(again.stages) or again.exact or keeping.exact:
        return None
    if not all(_completes(*pair) for pair in stages):
        return None
    parts = _Parts(index.ops, count, region.extent)
    nodes: list[Node] = []
    priority: dict[Node, int] = {}
    try:
        for pair in stages:
            first, second = (build_loop(index, region, stage) for stage in pair)
            if second.outputs != pair[1].results:
                return None  # sums of short floats, which both parts would have to carry wide
            late = max(index.position[index.producer[tensor]] for tensor in second.outputs)
            made = parts.stage(first, second)
            priority.update(dict.fromkeys(made, late))
            nodes += made
    except CannotPart:
        return None
    return replaced(index, region, nodes, priority)


def _completes(keeping: Stage, again: Stage) -> bool:
    """Return whether one stage completes all that the other does."""
    return keeping.number == again.number and set(again.results) <= set(keeping.results)


class _Parts:
    """The loops of both parts, and what stands for each part of a tensor."""

    def __init__(self, ops: OpSet, count: int, extent: int) -> None:
        self.ops = ops
        self.spans = ((0, count), (count, extent - count))
        self.known: dict[tuple[Tensor, Slot, int], Tensor] = {}
        self.nodes: list[Node] = []

    def stage(self, first: Loop, second: Loop) -> list[Node]:
        """Return the loops of one stage, what they read, and what combines their results."""
        self.nodes = []
        made = [self._part(loop, which) for which, loop in enumerate((first, second))]
        ends = [dict(zip(loop.outputs, part, strict=True)) for loop, part in
                zip((first, second), made, strict=True)]  # fmt: skip
        for tensor, result in zip(first.outputs, first.results, strict=True):
            if tensor in ends[1]:
                self._combined(tensor, result, ends[0][tensor], ends[1][tensor])
        return self.nodes

    def _part(self, loop: Loop, which: int) -> tuple[Tensor, ...]:
        """Add the loop over one part; return its outputs."""
        begin, extent = self.spans[which]
        inputs = tuple(
            tensor if slot is None else self._sliced(tensor, slot, which)
            for tensor, slot in zip(loop.inputs, loop.slots, strict=True)
        )
        template, tensors = cut_with_tensors(self.ops, loop.template, loop.carried, extent)
        carried = {tensors[tensor]: slot for tensor, slot in loop.carried.items()}
        outputs = tuple(
            Tensor(chunk_shape(tensor, result.slot, extent), tensor.dtype, tensor.name)
            for tensor, result in zip(loop.outputs, loop.results, strict=True)
        )
        share = extent / loop.extent
        made = dataclasses.replace(
            loop,
            inputs=inputs,
            outputs=outputs,
            name=f"{loop.name}_part{which}",
            extent=extent,
            body=template,
            template=template,
            carried=MappingProxyType(carried),
            recomputed_flops=int(loop.recomputed_flops * share),
            axis=f"{loop.axis}, {begin:,} to {begin + extent:,}",
        )
        self.nodes.append(made)
        for tensor, result, part in zip(loop.outputs, loop.results, outputs, strict=True):
            if result.slot is not None:
                self.known[tensor, result.slot, which] = part
        return outputs

    def _sliced(self, tensor: Tensor, slot: Slot, which: int) -> Tensor:
        if (tensor, slot, which) in self.known:
            return self.known[tensor, slot, which]
        begin, size = [0] * len(tensor.dims), list(tensor.dims)
        begin[slot.axis], size[slot.axis] = (one * slot.block for one in self.spans[which])
        made = self._op("Slice", f"{tensor.name}/part{which}", tensor,
                        self._const(begin), self._const(size))  # fmt: skip
        self.known[tensor, slot, which] = made
        return made

    def _combined(self, tensor: Tensor, result: Result, first: Tensor, second: Tensor) -> None:
        """Add the node that makes a tensor of the graph from its parts."""
        if result.slot is not None:
            self._op("ConcatV2", tensor.name, first, second, self._const(result.slot.axis))
        elif result.combine in COMBINING:
            self._op(COMBINING[result.combine], tensor.name, first, second)
        else:
            raise CannotPart(result.combine)
        self.nodes[-1] = dataclasses.replace(self.nodes[-1], outputs=(tensor,))

    def _const(self, value: list[int] | int) -> Tensor:
        self.nodes.append(const(np.asarray(value, np.int64), "part", "int64"))
        return self.nodes[-1].output

    def _op(self, op: str, name: str, *inputs: Tensor) -> Tensor:
        made = self.ops.make(op, inputs, {}, name)
        if made is None:
            raise CannotPart(op)
        self.nodes.append(made)
        return made.output


def parts_to_try(extent: int, per_index: int, budget: int, room: int) -> Iterator[int]:
    """Yield how many indices to keep: what fills the room, and shares of the budget.

    Larger ones leave the chunks less room.
    """
    shares = [0.95 * room, *(share * budget for share in SHARES)]
    counts = {int(share / max(1, per_index)) // ALIGNED * ALIGNED for share in shares}
    for count in sorted(counts):
        if extent * LEAST_SHARE <= count < extent:
            yield count


ALIGNED = 64
"""Parts of whole multiples: what is sliced along its leading axis is a view then."""
LEAST_SHARE = 0.05
"""The part of the indices that is worth loops of its own."""
SHARES = (0.25, 0.5, 0.75)
