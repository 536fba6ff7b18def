"""Excerpts of tensors: a few elements, found chunk by chunk.

A slice would need its axis whole; a maximum does not. All elements but one are replaced by the
lowest number, so the maximum is that element. Other elements, even NaN, do not affect it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial

import numpy as np

from tf_exla.ir.builder import Builder, position_dtype
from tf_exla.ir.graph import Tensor


def beginning(w: Builder, x: Tensor, count: int, least: int) -> Tensor | None:
    """Build the first elements of `x`, one more than shown: the message then ends in dots.

    The `count + 1` elements lie along the last axis longer than `count`, else along the last axis.
    """
    if _lowest(x.dtype) is None or not x.dims:
        return None
    rank = len(x.dims)
    own = next((axis for axis in reversed(range(rank)) if x.dims[axis] > count), rank - 1)
    others = [axis for axis in range(rank) if axis != own]
    tests = [_at(w, x, axis, 0) for axis in others if x.dims[axis] > 1]
    if tests:
        x = _picked(w, x, functools.reduce(partial(w.op, "logical_and"), tests), others)
    length = x.dims[own]
    x = w.op("reshape", x, w.const([1, length]))
    shown = min(count + 1, length)
    if x.nbytes <= least:
        x = w.op("slice", x, w.const([0, 0]), w.const([1, shown]))
    else:  # a slice of a long axis would need it whole as well
        first = w.const(np.arange(shown).reshape(shown, 1), position_dtype(length))
        x = _picked(w, x, w.op("equal", w.positions(length, 1, 2), first), [1])
    return w.op("reshape", x, w.const([shown]))


def corners(w: Builder, x: Tensor, count: int, least: int) -> Tensor | None:
    """Build the first and last `count` elements of each axis, and one between for the dots."""
    if _lowest(x.dtype) is None:
        return None
    for axis, length in enumerate(x.dims):
        if length <= 2 * count + 1:
            continue
        places = (*range(count + 1), *range(length - count, length))
        parts = [_picked(w, x, _at(w, x, axis, place), [axis]) for place in places]
        x = w.op("concat", *parts, w.const(axis))
    return x


def _at(w: Builder, x: Tensor, axis: int, place: int) -> Tensor:
    """Build a mask that is true at one place of an axis."""
    length = x.dims[axis]
    positions = w.positions(length, axis, len(x.dims))
    return w.op("equal", positions, w.const(place, position_dtype(length)))


def _picked(w: Builder, x: Tensor, where: Tensor, axes: Sequence[int]) -> Tensor:
    """Reduce axes to the element at which `where` is true; the axes stay with size one."""
    over = w.const(list(axes))
    if x.dtype == "bool":
        return w.op("any", w.op("logical_and", where, x), over, keep_dims=True)
    lowest = _lowest(x.dtype)
    assert lowest is not None
    kept = w.op("where", where, x, w.const(lowest, x.dtype))
    return w.op("max", kept, over, keep_dims=True)


def _lowest(dtype: str) -> bool | int | float | None:
    """Return the lowest value of a dtype; None if the dtype has no order, or no maximum."""
    if dtype == "bool":
        return False
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return -np.inf
    if dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16"):
        return int(np.iinfo(dtype).min)
    return None
