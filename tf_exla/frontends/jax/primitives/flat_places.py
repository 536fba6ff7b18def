"""Sums at several coordinates, as by `zeros.at[i, j].add(v)`, written as a segment sum.

The segments are those of one flat index. A segment sum can be split along the updates, but the
primitive `scatter-add` cannot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jax.lax import GatherScatterMode

from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.frontends.jax.primitives.gather import clamped
from tf_exla.ir.graph import Tensor

_WIDE = frozenset({"int64", "uint32", "uint64"})
"""Dtypes of indices that int32 does not hold."""


def flat_segments(w: Writer, call: Call, window: Sequence[int]) -> Sequence[Tensor] | None:
    """Write a scatter that adds rows to zeros at two or more coordinates; None for other scatters.

    `window`: the shape of one written part. It must cover all axes that are not addressed.
    """
    x, indices, updates = call.inputs
    how = call.params["dimension_numbers"]
    axes = [int(axis) for axis in how.scatter_dims_to_operand_dims]
    sizes = [x.dims[axis] for axis in axes]
    rest = [axis for axis in range(len(x.dims)) if axis not in axes]
    if len(axes) < 2 or how.operand_batching_dims or sorted(axes) != [*how.inserted_window_dims]:
        return None
    if any(window[axis] != x.dims[axis] for axis in rest) or len(indices.dims) < 2:
        return None
    count = math.prod(sizes)
    if count > np.iinfo(np.int32).max:
        return None
    index = _flat(w, call, sizes, count)
    outer = [k for k in range(len(updates.dims)) if k not in how.update_window_dims]
    rows = w.transpose(updates, [*outer, *how.update_window_dims])
    wide = [x.dims[axis] for axis in rest]
    made = w.op("segment_sum", rows, index, w.const(count), shape=(count, *wide))
    made = w.reshape(made, [*sizes, *wide])
    return [w.transpose(made, list(np.argsort([*axes, *rest])))]


def _flat(w: Writer, call: Call, sizes: Sequence[int], count: int) -> Tensor:
    """Return the flat index of each update; `count` for those outside, which are dropped."""
    indices = call.inputs[1]
    batch = list(indices.dims[:-1])
    clips = call.params["mode"] is GatherScatterMode.CLIP
    flat: Tensor | None = None
    outside: Tensor | None = None
    for k, size in enumerate(sizes):
        one = w.slice(indices, [0] * len(batch) + [k], [*batch, 1])
        one = w.reshape(one, batch)
        if clips:
            one = clamped(w, one, size - 1)
        else:
            one = one if one.dtype in _WIDE else w.cast(one, "int32")  # `size` fits int32
            low = w.op("less", one, w.const(0, one.dtype))
            high = w.op("greater_equal", one, w.const(size, one.dtype))
            wrong = w.op("logical_or", low, high)
            outside = wrong if outside is None else w.op("logical_or", outside, wrong)
        one = w.cast(one, "int32")
        flat = one if flat is None else w.op("add", w.op("multiply", flat, w.const(size)), one)
    assert flat is not None
    return flat if outside is None else w.op("where", outside, w.const(count), flat)
