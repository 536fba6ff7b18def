"""Copy sub-graphs for chunks of another size."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.ir.graph import Graph, Loop, Shape, SplitAxis, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.resized import resized_graph

UNCUT = 0
"""The chunk of a loop before it gets one (`chunks.fit_loops`); its body is the template."""


def cut(ops: OpSet, template: Graph, carried: Mapping[Tensor, SplitAxis], size: int) -> Graph:
    """Return a copy of `template` for a chunk of `size` indices.

    `carried`: the tensors that carry the loop's axis, and where. A body cannot be cut from another
    body: in a chunk of one index, axes of size one are ambiguous.
    """
    return cut_with_tensors(ops, template, carried, size)[0]


def cut_with_tensors(
    ops: OpSet, template: Graph, carried: Mapping[Tensor, SplitAxis], size: int
) -> tuple[Graph, Mapping[Tensor, Tensor]]:
    """Copy a graph as `cut` does; also return the copy of each tensor of the template."""
    inputs: dict[Tensor, Tensor] = {}
    for tensor in template.inputs:
        slot = carried.get(tensor)
        if slot is None:
            inputs[tensor] = tensor.fresh_copy()
        else:  # chunks differ in their part of the static value
            shape = chunk_shape(tensor, slot, size)
            inputs[tensor] = tensor.with_axes(shape or (), tensor.name)

    def shape_of(tensor: Tensor) -> Shape | None:
        return chunk_shape(tensor, carried.get(tensor), size)

    return resized_graph(ops, template, inputs, shape_of)


def chunk_shape(tensor: Tensor, slot: SplitAxis | None, size: int) -> Shape | None:
    """Return the shape of a tensor in a chunk of `size` indices; `slot`: where it carries the axis.

    None if the tensor's rank is not known.
    """
    axes = tensor.axes
    if slot is None or axes is None:
        return axes
    axis = slot.axis
    return (*axes[:axis], size * slot.block, *axes[axis + 1 :])


def body_of(ops: OpSet, loop: Loop, size: int, known: dict[int, Graph]) -> Graph:
    """Return a loop's body for a chunk of `size`, memoized in `known`."""
    if size not in known:
        known[size] = cut(ops, loop.template, loop.split_axes, size)
    return known[size]


def resize_loop(
    ops: OpSet, loop: Loop, chunk: int, parallel: int, known: dict[int, Graph] | None = None
) -> Loop:
    """Return a loop with bodies cut for another chunk and its remainder.

    If the old bodies had been split into tiles, the new ones are not.

    `known`: bodies cut from the same template before, by size; those cut now are added.
    """
    cuts = {} if known is None else known

    def body(size: int) -> Graph:
        return body_of(ops, loop, size, cuts)

    chunk = min(max(chunk, loop.min_chunk), loop.extent)
    if chunk == loop.chunk and parallel == loop.parallel:
        return loop
    rest = loop.extent % chunk
    return loop.replace(
        chunk=chunk,
        parallel=min(parallel, loop.extent // chunk),
        body=body(chunk),
        remainder=body(rest) if rest else None,
    )
