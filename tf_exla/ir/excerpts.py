"""Excerpts of tensors: a few elements, found chunk by chunk.

A slice would need its axis whole; a maximum does not. All elements but one are replaced by the
lowest number, so the maximum is that element. Other elements, even NaN, do not affect it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from tf_exla.ir.builder import Builder, position_dtype
from tf_exla.ir.graph import Tensor


def beginning(w: Builder, x: Tensor, count: int, least: int) -> Tensor | None:
    """Return the first elements of `x` in row-major order, more than `count` of them.

    TensorFlow prints `count` elements of the result exactly as it prints those of `x`, including
    brackets and dots. For that, the last axes are whole, the axis before them is as long as
    necessary, and all earlier axes have size one. None if the dtype has no maximum. `least`: the
    bytes above which no axis is sliced.
    """
    if _lowest(x.dtype) is None or not x.dims:
        return None
    shown: list[int] = []
    for length in reversed(x.dims):
        inner = math.prod(shown)
        shown.insert(0, min(length, -(-(count + 1) // inner)) if 0 < inner <= count else 1)
    cut = next((axis for axis in range(len(shown)) if shown[axis] > 1), len(shown) - 1)
    tests = [_at(w, x, axis, 0) for axis in range(cut) if x.dims[axis] > 1]
    if tests:
        x = _picked(w, x, functools.reduce(partial(w.op, "logical_and"), tests), range(cut))
    length, inner = x.dims[cut], math.prod(shown[cut + 1 :])
    x = w.op("reshape", x, w.const([1, length, inner]))
    if x.nbytes <= least:
        x = w.op("slice", x, w.const([0, 0, 0]), w.const([1, shown[cut], inner]))
    elif shown[cut] < length:  # slicing a large tensor would need its axis whole
        first = np.arange(shown[cut]).reshape(-1, 1, 1)
        positions = w.positions(length, 1, 3)
        x = _picked(w, x, w.op("equal", positions, w.const(first, position_dtype(length))), [1])
    return w.op("reshape", x, w.const(shown))


def corners(w: Builder, x: Tensor, count: int, least: int) -> Tensor | None:
    """Return the first and last `count` elements of `x` along each axis, and one between them.

    The one between is printed as dots. None if the dtype has no maximum.
    """
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
    """Return a mask that is true at one index of an axis; its other axes have size one."""
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
