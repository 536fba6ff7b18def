"""Primitives that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.ir.graph import Tensor


def _broadcast(w: Writer, call: Call) -> Sequence[Tensor] | None:
    x, shape = call.inputs[0], call.shape
    if len(call.inputs) != 1:
        return None
    inner = w.bare(x)
    if not inner.dims:
        return [w.broadcast(inner, shape)]
    places = call.params["broadcast_dimensions"]
    new = [axis for axis in range(len(shape)) if axis not in places]
    return [w.broadcast(w.insert(x, new) if new else x, shape)]


def _reshape(w: Writer, call: Call) -> Sequence[Tensor] | None:
    x, order = call.inputs[0], call.params["dimensions"]
    if len(call.inputs) != 1:
        return None
    if not w.bare(x).dims:
        return [w.broadcast(w.bare(x), call.shape)]
    return [w.reshape(x if order is None else w.transpose(x, order), call.shape)]


def _squeeze(w: Writer, call: Call) -> Sequence[Tensor]:
    (x,), gone = call.inputs, sorted(call.params["dimensions"])
    if not gone:
        return [x]
    return [w.op("squeeze", x, shape=call.shape, dtype=x.dtype, squeeze_dims=list(gone))]


def _expand_dims(w: Writer, call: Call) -> Sequence[Tensor]:
    return [w.insert(call.inputs[0], call.params["dimensions"])]


def _transpose(w: Writer, call: Call) -> Sequence[Tensor]:
    x, order = call.inputs[0], call.params["permutation"]
    if not w.bare(x).dims:
        return [w.broadcast(w.bare(x), call.shape)]
    return [w.transpose(x, order)]


def _rev(w: Writer, call: Call) -> Sequence[Tensor]:
    (x,), axes = call.inputs, call.params["dimensions"]
    if not axes:
        return [x]
    return [w.op("flip", x, w.const(list(axes)), shape=x.dims)]


def _concatenate(w: Writer, call: Call) -> Sequence[Tensor]:
    if len(call.inputs) == 1:
        return call.inputs
    return [w.op("concat", *call.inputs, w.const(call.params["dimension"]))]


def _stack(w: Writer, call: Call) -> Sequence[Tensor]:
    axis = call.params["axis"] % len(call.shape)
    parts = [w.insert(one, [axis]) for one in call.inputs]
    return parts if len(parts) == 1 else [w.op("concat", *parts, w.const(axis))]


def _unstack(w: Writer, call: Call) -> Sequence[Tensor]:
    (x,) = call.inputs
    axis = call.params["axis"] % len(x.dims)
    rest = [size for k, size in enumerate(x.dims) if k != axis]
    parts = []
    for number in range(x.dims[axis]):
        begin, end = [0] * len(x.dims), list(x.dims)
        begin[axis], end[axis] = number, number + 1
        parts.append(w.reshape(cut(w, x, begin, end), rest))
    return parts


def _slice(w: Writer, call: Call) -> Sequence[Tensor]:
    (x,), params = call.inputs, call.params
    return [cut(w, x, params["start_indices"], params["limit_indices"], params["strides"])]


def cut(
    w: Writer,
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Tensor:
    """Return a slice with positive steps."""
    steps = steps or [1] * len(begin)
    shape = [max(0, -((b - e) // s)) for b, e, s in zip(begin, end, steps, strict=True)]
    inner = w.bare(x)
    if not inner.dims:
        return w.broadcast(inner, shape)
    if all(step == 1 for step in steps):
        return w.slice(x, begin, shape)
    operands = (w.const(list(one)) for one in (begin, end, steps))
    return w.op("strided_slice", x, *operands, shape=shape)


def _split(w: Writer, call: Call) -> Sequence[Tensor]:
    (x,), axis, start = call.inputs, call.params["axis"], 0
    parts = []
    for size in call.params["sizes"]:
        begin, end = [0] * len(x.dims), list(x.dims)
        begin[axis], end[axis] = start, start + size
        parts.append(cut(w, x, begin, end))
        start += size
    return parts


def _tile(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Broadcast along a new axis before each axis, then merge the two: both ops can be split."""
    (x,), counts = call.inputs, call.params["reps"]
    if len(counts) != len(x.dims):
        return None
    if all(size == 1 or count == 1 for size, count in zip(x.dims, counts, strict=True)):
        return [w.broadcast(x, call.shape)]
    pairs = [size for pair in zip(counts, x.dims, strict=True) for size in pair]
    apart = w.insert(x, list(range(0, len(pairs), 2)))
    return [w.reshape(w.broadcast(apart, pairs), call.shape)]


def _iota(w: Writer, call: Call) -> Sequence[Tensor] | None:
    axis, shape = call.params["dimension"], call.shape
    if len(call.inputs):
        return None
    dtype = "int64" if call.dtype == "int64" else "int32"  # shorter dtypes may not hold the size
    bounds = [w.const(one, dtype) for one in (0, shape[axis], 1)]
    line = w.op("arange", *bounds, shape=(shape[axis],), dtype=dtype)
    line = w.cast(line, call.dtype)
    thin = [size if k == axis else 1 for k, size in enumerate(shape)]
    return [w.broadcast(w.reshape(line, thin), shape)]


def _pad(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Pad, and slice where a width is negative; pad between elements only with zeros."""
    x, value = call.inputs
    config = call.params["padding_config"]
    if any(inside for _, _, inside in config):
        return _spread(w, call)
    pairs = [[max(low, 0), max(high, 0)] for low, high, _ in config]
    made = x
    if np.any(pairs):
        shape = [size + sum(pair) for size, pair in zip(x.dims, pairs, strict=True)]
        if value.value is not None and not value.value.any():
            made = w.op("pad", x, w.const(pairs), shape=shape)
        else:
            made = w.op("pad_with", x, w.const(pairs), value, shape=shape)
    begin = [max(-low, 0) for low, _, _ in config]
    return [w.slice(made, begin, call.shape)]


def _spread(w: Writer, call: Call) -> Sequence[Tensor] | None:
    x, value = call.inputs
    config = call.params["padding_config"]
    negative = any(low < 0 or high < 0 for low, high, _ in config)
    if negative or value.value is None or value.value.any() or 0 in x.dims:
        return None
    begin = [low for low, _, _ in config]
    steps = [inside + 1 for _, _, inside in config]
    end = [b + (size - 1) * step + 1 for b, size, step in zip(begin, x.dims, steps, strict=True)]
    operands = (w.const(list(one)) for one in (call.shape, begin, end, steps))
    return [w.op("strided_slice_grad", *operands, x, shape=call.shape, dtype=x.dtype)]


CONVERTERS: Mapping[str, Any] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "expand_dims": _expand_dims,
    "iota": _iota,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
    "unstack": _unstack,
}
