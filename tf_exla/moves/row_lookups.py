"""Reads and writes at one index of each row, lowered to comparisons of positions.

A row is read whole by `x[row, index]`, and written whole by its gradient, so neither can be split
along the row. Where the position equals the index can be computed for a chunk of positions. Each
further index of a row would take another pass over it, so only rows with one index are lowered.
An element is found by a sum with zeros, which loses the sign of a zero.
"""

from __future__ import annotations

import math

from tf_exla.ir.builder import Builder, position_dtype
from tf_exla.ir.graph import Node, Tensor
from tf_exla.vocabulary.rules.builders import integer


def _checked(w: Builder, indices: Tensor, size: int) -> Tensor:
    """Return the indices, and -1 for those that are not in a row of `size` elements.

    They are looked up in the list of all positions by a `take`, which on a CPU fails for an invalid
    index in TensorFlow, as the lowered op does.
    """
    indices = w.cast(indices, "int64" if indices.dtype == "int64" else "int32")
    known = w.op("arange", *(w.const(value, indices.dtype) for value in (0, size, 1)))
    found = w.op("take", known, indices, w.const(0))
    return w.op("where", w.op("equal", found, indices), indices, w.const(-1, indices.dtype))


def places(w: Builder, indices: Tensor, size: int, axis: int, rank: int) -> Tensor:
    """Return where the position along `axis` is the index of its row.

    `indices`: one for each row; the axes before `axis` are those of rows.
    """
    inside = w.cast(_checked(w, indices, size), position_dtype(size))
    rows = indices.dims[:axis]
    column = w.shaped(inside, [*rows, *(1 for _ in range(rank - axis))])
    return w.op("equal", w.positions(size, axis, rank), column)


_NUMBERS = ("int", "uint", "float16", "bfloat16", "float32", "float64", "complex")
"""The beginnings of the dtypes that can be added."""


def take(w: Builder, node: Node) -> Tensor | None:
    """x[row, i] = sum over columns of x where column = i, else 0"""
    x, indices, *rest = node.inputs
    axis = rest[0].value if rest else 0
    batch = integer(node, "batch_dims", 0)
    batch += len(indices.dims) if batch < 0 else 0
    if axis is None or batch < 1 or int(axis) % len(x.dims) != batch or not _single(indices, batch):
        return None
    if x.dtype != "bool" and not x.dtype.startswith(_NUMBERS):
        return None
    own = places(w, indices, x.dims[batch], batch, len(x.dims))
    if x.dtype == "bool":
        found = w.op("any", w.op("logical_and", own, x), w.const([batch]))
    else:
        found = w.op("sum", w.op("where", own, x, w.zeros(x)), w.const([batch]))
    return w.shaped(found, node.output.dims)


def scatter_rows(w: Builder, node: Node) -> Tensor | None:
    """u added at [row, i] = u where column = i, else 0"""
    indices, values = node.inputs[:2]
    axis, dims = len(indices.dims) - 1, node.output.dims
    if not _single(indices, axis) or not values.dtype.startswith(_NUMBERS):
        return None
    own = places(w, indices, dims[axis], axis, len(dims))
    return w.op(
        "where", own, w.shaped(values, [*dims[:axis], 1, *dims[axis + 1 :]]), w.zeros(values)
    )


def _single(indices: Tensor, batch: int) -> bool:
    return math.prod(indices.dims[batch:]) == 1
