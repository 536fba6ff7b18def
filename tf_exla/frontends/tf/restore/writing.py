"""Read a chunk's part of a tensor, and write its part of a result in place.

`TensorStridedSliceUpdate` copies one element at a time on one core: 1.3 ns a byte of float32 in
chunks of 1,000 rows. `InplaceUpdate` copies whole rows in 0.2 ns. So the result is viewed as
the longest rows that fit both the chunks and the whole. `InplaceUpdate` writes into its operand
even if it has other holders. An accumulator has none, since it is created in the same call
(`Empty`, `Fill`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.nodes.emit import emit_const
from tf_exla.frontends.tf.restore.chunk_start import Start, on_host
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.frontends.tf.restore.on_device import movable, restored
from tf_exla.ir.graph import SplitAxis, Tensor, item_bytes
from tf_exla.ir.tensor import MOST_SLICED_AXES

LEAST_ROW = 64
"""Bytes of a row from which writing by rows is faster."""
MOST_ROWS = 1 << 12
"""The most rows of a part, since their numbers are a constant of the graph."""
_TYPES = frozenset({"bool", "float32", "float64", "int64"})


@dataclass(frozen=True)
class _Rows:
    """A result viewed as rows.

    `count`: the number of rows. `size`: elements of a row. `unit`: elements of the split axis in a
    row. `offsets`: the numbers of the rows that the first chunk's part consists of.
    """

    count: int
    size: int
    unit: int
    offsets: npt.NDArray[np.int32]


class Piece(NamedTuple):
    """A part of a whole result, one chunk along `slot`."""

    whole: Tensor
    part: Tensor
    slot: SplitAxis


def write_part(
    emitter: Emitter, start: Start, accumulator: tf.Tensor, value: tf.Tensor, piece: Piece
) -> tf.Tensor:
    """Write `value`, the part of a result for the chunk at `start`, and return the whole result."""
    if emitter.compiled:
        begin = start.at(len(piece.part.dims), piece.slot)
        return emitter.op("XlaDynamicUpdateSlice", [accumulator, value, begin], {}).outputs[0]
    rows = _rows(piece, start)
    if rows is None or device() == "GPU":
        return _write_slice(emitter, start, accumulator, value, piece)
    whole, _, slot = piece
    number = len(rows.offsets)
    target = _reshaped(emitter, accumulator, (rows.count, rows.size))
    source = _reshaped(emitter, value, (number, rows.size))
    places = start.rows(rows.offsets, slot.block, rows.unit)
    (made,) = emitter.op("InplaceUpdate", [target, places, source], {}, large=True).outputs
    return _reshaped(emitter, made, whole.dims)


def _rows(piece: Piece, start: Start) -> _Rows | None:
    """Return the longest rows that divide the part, or None if they are too short or too many."""
    whole, part, slot = piece
    if whole.dtype not in _TYPES or not whole.size or not part.size:
        return None
    axis, size, extent = slot.axis, whole.dims[slot.axis], part.dims[slot.axis]
    unit = math.gcd(size, extent, (start.fixed or start.step) * slot.block)
    row = unit * math.prod(whole.dims[axis + 1 :])
    each, own = size // unit, extent // unit
    lead = math.prod(whole.dims[:axis])
    if row * item_bytes(whole.dtype) < LEAST_ROW or lead * own > MOST_ROWS:
        return None
    if lead * each > np.iinfo(np.int32).max:
        return None
    offsets = np.arange(lead, dtype=np.int32)[:, None] * each + np.arange(own, dtype=np.int32)
    return _Rows(lead * each, row, unit, offsets.ravel())


def _reshaped(emitter: Emitter, value: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    index = "int64" if max(shape, default=0) > np.iinfo(np.int32).max else "int32"
    dims = emit_const(emitter.graph, np.array(shape, index))
    return emitter.op("Reshape", [value, dims], {}, large=True).outputs[0]


def few_axes(dims: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Merge all axes before `axis`, and all after it, if slices cannot have as many axes."""
    if len(dims) <= MOST_SLICED_AXES:
        return dims
    return math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])


def read_part(emitter: Emitter, start: Start, value: tf.Tensor, piece: Piece) -> tf.Tensor:
    """Return the part of a tensor for the chunk at `start`."""
    whole, part, slot = piece
    dims = few_axes(part.dims, slot.axis)
    if dims != part.dims:
        value = _reshaped(emitter, value, few_axes(whole.dims, slot.axis))
        slot = SplitAxis(1, slot.block)
    begin = start.at(len(dims), slot)
    size = emit_const(emitter.graph, np.array(dims, start.index))
    sliced = emitter.op("Slice", [value, begin, size], {}, large=True, name="chunk").outputs[0]
    return sliced if dims == part.dims else _reshaped(emitter, sliced, part.dims)


def _write_slice(
    emitter: Emitter, start: Start, accumulator: tf.Tensor, value: tf.Tensor, piece: Piece
) -> tf.Tensor:
    whole, part, slot = piece
    graph, index = emitter.graph, start.index
    dims = few_axes(part.dims, slot.axis)
    accumulator, value = movable(emitter, accumulator), movable(emitter, value)
    if dims != part.dims:
        accumulator = _reshaped(emitter, accumulator, few_axes(whole.dims, slot.axis))
        value, slot = _reshaped(emitter, value, dims), SplitAxis(1, slot.block)
    begin = start.at(len(dims), slot)
    size = emit_const(graph, np.array(dims, index))
    end = emitter.op("AddV2", [begin, size], on_host(index)).outputs[0]
    ones = emit_const(graph, np.ones(len(dims), index))
    masks = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    attrs = {f"{mask}_mask": 0 for mask in masks}
    (made,) = emitter.op(
        "TensorStridedSliceUpdate", [accumulator, begin, end, ones, value], attrs, large=True
    ).outputs
    made = made if dims == part.dims else _reshaped(emitter, made, whole.dims)
    return restored(emitter, made, whole.dtype)
