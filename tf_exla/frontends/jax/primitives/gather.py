"""Reads by index. A gather that is a slice, a take or a diagonal is written as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.lax import GatherScatterMode

from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.frontends.jax.primitives.masks import diagonal
from tf_exla.frontends.jax.primitives.movement import cut
from tf_exla.frontends.jax.primitives.outer_places import outer_gather
from tf_exla.frontends.jax.primitives.own_rows import own_rows
from tf_exla.frontends.jax.primitives.pointwise import first_of, kind_of
from tf_exla.ir.graph import Array, Tensor


def clamped(w: Writer, index: Tensor, last: int) -> Tensor:
    """Clamp an index between zero and `last`."""
    known = w.known(index)
    if known is not None and known.size and known.min() >= 0 and known.max() <= last:
        return index
    low = w.op("maximum", index, w.const(0, index.dtype))
    most = jnp.iinfo(index.dtype).max  # type: ignore[no-untyped-call]
    if last >= most:
        return low
    return w.op("minimum", low, w.const(last, index.dtype))


def _dynamic_slice(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Read a part of a tensor; a part that would be partly outside is shifted inside, as in JAX."""
    x, *starts = call.inputs
    shape = call.shape
    partial = [k for k, (a, b) in enumerate(zip(x.dims, shape, strict=True)) if a != b]
    known = [w.known(starts[k]) for k in partial]
    if all(one is not None for one in known):
        begin = [0] * len(shape)
        for k, one in zip(partial, known, strict=True):
            begin[k] = min(max(int(one), 0), x.dims[k] - shape[k])  # type: ignore[arg-type]
        return [cut(w, x, begin, [b + n for b, n in zip(begin, shape, strict=True)])]
    if len(partial) != 1 or shape[partial[0]] != 1:
        return None
    (axis,) = partial
    row = w.op("take", x, clamped(w, starts[axis], x.dims[axis] - 1), w.const(axis))
    return [w.insert(row, [axis])]


def _gather(w: Writer, call: Call) -> Sequence[Tensor] | None:
    x, indices = call.inputs
    how, sizes = call.params["dimension_numbers"], call.params["slice_sizes"]
    if 0 in x.dims or 0 in call.shape or not _fills(call):
        return None
    known = w.known(indices)
    if known is not None and known.ndim == 1 and not how.operand_batching_dims:
        made = _one_slice(w, call, known)
        if made is not None:
            return made
    if known is not None and len(how.start_index_map) == 2:
        made = _diagonal(w, call, known)
        if made is not None:
            return made
    if known is not None and len(how.start_index_map) > 1:
        call = _without_constant_places(w, call, known)
        x, indices = call.inputs
        how, sizes = call.params["dimension_numbers"], call.params["slice_sizes"]
    if len(how.start_index_map) != 1 or not _one_index_each(call):
        return None
    axis = int(how.start_index_map[0])
    batch = len(how.operand_batching_dims)
    leading = tuple(range(batch))
    if not how.operand_batching_dims == how.start_indices_batching_dims == leading or axis < batch:
        return None
    index = w.reshape(indices, indices.dims[:-1])
    count = len(index.dims) - batch
    moved = None if batch else _ramp(w, x, axis, index)
    if moved is None:
        moved = _taken(w, call, axis, batch, index)
    # Permute the axes from the order of `take` to that of the gather.
    rest = [k for k in range(batch, len(sizes)) if k != axis]
    before = len([k for k in rest if k < axis])
    natural: list[object] = [*(("b", k) for k in range(batch)), *rest[:before]]
    natural += [("i", k) for k in range(count)]
    natural += rest[before:]
    kept = [k for k in rest if k not in how.collapsed_slice_dims]
    if axis not in how.collapsed_slice_dims:
        natural.append(axis)
        moved = w.insert(moved, [len(moved.dims)])
        kept = sorted([*kept, axis])
    gone = [k for k, one in enumerate(natural) if one in rest and one not in kept]
    if gone:
        natural = [one for k, one in enumerate(natural) if k not in gone]
        shape = [size for k, size in enumerate(moved.dims) if k not in gone]
        moved = w.reshape(moved, shape)
    of_batch = iter([*(("b", k) for k in range(batch)), *(("i", k) for k in range(count))])
    of_slice = iter(kept)
    wanted = [
        next(of_slice) if k in how.offset_dims else next(of_batch) for k in range(len(call.shape))
    ]
    return [w.transpose(moved, [natural.index(one) for one in wanted])]


def _fills(call: Call) -> bool:
    """Return whether the fill value, if there is one, is a number of the result's dtype."""
    fill = call.params["fill_value"]
    return fill is None or kind_of(call.dtype) not in "ib" or fill == int(np.nan_to_num(fill))


def _one_index_each(call: Call) -> bool:
    """Return whether indexed and batch axes are read at single indices, the others whole."""
    how, sizes = call.params["dimension_numbers"], call.params["slice_sizes"]
    single = {*how.start_index_map, *how.operand_batching_dims}
    return all(
        size == (1 if k in single else full)
        for k, (size, full) in enumerate(zip(sizes, call.inputs[0].dims, strict=True))
    )


def _without_constant_places(w: Writer, call: Call, known: Array) -> Call:
    """Slice the axes that have a constant index, and return a gather along the other axis.

    If not exactly one axis is left, return the call unchanged.
    """
    x, indices = call.inputs
    how, sizes = call.params["dimension_numbers"], call.params["slice_sizes"]
    begin, end, moving = [0] * len(sizes), list(x.dims), []
    for column, axis in enumerate(how.start_index_map):
        places = np.unique(known[..., column])
        if len(places) > 1 or places[0] < 0 or places[0] + sizes[axis] > x.dims[axis]:
            moving.append(column)
        else:
            begin[axis], end[axis] = int(places[0]), int(places[0]) + sizes[axis]
    if len(moving) != 1:
        return call
    inputs = [cut(w, x, begin, end), w.const(known[..., moving], indices.dtype)]
    left = how._replace(start_index_map=(how.start_index_map[moving[0]],))
    params = {**call.params, "dimension_numbers": left}
    return Call(call.primitive, inputs, params, call.avals)


def _one_slice(w: Writer, call: Call, start: Array) -> Sequence[Tensor] | None:
    """Read one part of a tensor at a known position."""
    x = call.inputs[0]
    how, sizes = call.params["dimension_numbers"], call.params["slice_sizes"]
    begin = [0] * len(sizes)
    for place, axis in zip(start.tolist(), how.start_index_map, strict=True):
        begin[axis] = place
    end = [b + n for b, n in zip(begin, sizes, strict=True)]
    if min(begin) < 0 or any(e > n for e, n in zip(end, x.dims, strict=True)):
        return None
    part = cut(w, x, begin, end)
    if not how.collapsed_slice_dims:
        return [part]
    gone = list(how.collapsed_slice_dims)
    return [w.op("squeeze", part, shape=call.shape, dtype=x.dtype, squeeze_dims=gone)]


def _diagonal(w: Writer, call: Call, indices: Array) -> Sequence[Tensor] | None:
    """Read [i, i + k] for all i."""
    x, how = call.inputs[0], call.params["dimension_numbers"]
    pair = tuple(how.start_index_map)
    if how.operand_batching_dims or indices.ndim != 2 or not _one_index_each(call):
        return None
    if tuple(how.collapsed_slice_dims) != tuple(sorted(pair)):
        return None
    k = diagonal_at(indices, x.dims[pair[0]], x.dims[pair[1]])
    if k is None:
        return None
    rest = [axis for axis in range(len(x.dims)) if axis not in pair]
    made = diagonal(w, w.transpose(x, [*rest, *pair]), k)
    (at,) = set(range(len(call.shape))) - set(how.offset_dims)
    order = list(range(len(rest)))
    order.insert(at, len(rest))
    return [w.transpose(made, order)]


def diagonal_at(indices: Array, rows: int, columns: int) -> int | None:
    """Return which diagonal of a matrix the pairs `indices` address; None if it is none."""
    i, j = indices[:, 0].astype(np.int64), indices[:, 1].astype(np.int64)
    k = int(j[0] - i[0])
    count = min(rows + min(k, 0), columns - max(k, 0))
    line = np.arange(max(count, 0))
    if len(i) != count or np.any(i != line + max(-k, 0)) or np.any(j != line + max(k, 0)):
        return None
    return k


def _ramp(w: Writer, x: Tensor, axis: int, index: Tensor) -> Tensor | None:
    """Read at known indices with a constant step, up or down; None for other indices."""
    known = w.known(index)
    if known is None or known.ndim != 1 or known.min() < 0 or known.max() >= x.dims[axis]:
        return None
    steps = np.unique(np.diff(known.astype(np.int64))) if known.size > 1 else np.ones(1, int)
    if len(steps) != 1 or steps[0] == 0:
        return None
    step, low, high = abs(int(steps[0])), int(known.min()), int(known.max())
    begin, end, by = [0] * len(x.dims), list(x.dims), [1] * len(x.dims)
    begin[axis], end[axis], by[axis] = low, high + 1, step
    part = cut(w, x, begin, end, by)
    if steps[0] > 0:
        return part
    return w.op("flip", part, w.const([axis]), shape=part.dims)


def _taken(w: Writer, call: Call, axis: int, batch: int, index: Tensor) -> Tensor:
    """Read at indices. Those outside yield the fill value or are clamped, depending on the mode.

    Under `PROMISE_IN_BOUNDS` they are clamped, as by XLA.
    """
    x, mode, last = call.inputs[0], call.params["mode"], call.inputs[0].dims[axis] - 1
    inside = clamped(w, index, last)
    made = w.op("take", x, inside, w.const(axis), batch_dims=batch)
    if mode is not GatherScatterMode.FILL_OR_DROP or inside is index:
        return made
    valid = w.op("equal", index, inside)
    lead = [*index.dims[:batch], *[1] * (axis - batch), *index.dims[batch:]]
    valid = w.reshape(valid, [*lead, *[1] * (len(made.dims) - len(lead))])
    fill = w.const(call.params["fill_value"], x.dtype)
    return w.op("where", valid, made, fill)


CONVERTERS: Mapping[str, Any] = {
    "dynamic_slice": _dynamic_slice,
    "gather": first_of(_gather, outer_gather, own_rows),
}
