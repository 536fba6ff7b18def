"""Writes by index. A scatter to a slice, rows or a diagonal, or a segment sum, is written as such.

A scatter drops updates outside of the tensor, unless its mode clamps indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode

from tf_exla.frontends.jax.jaxprs.inlining import apply
from tf_exla.frontends.jax.jaxprs.writer import Call, Like, Writer
from tf_exla.frontends.jax.primitives.flat_places import flat_segments
from tf_exla.frontends.jax.primitives.gather import clamped, diagonal_at
from tf_exla.frontends.jax.primitives.masks import diagonal
from tf_exla.frontends.jax.primitives.outer_places import outer_scatter_add
from tf_exla.frontends.jax.primitives.own_rows import own_rows
from tf_exla.frontends.jax.primitives.pointwise import first_of, kind_of
from tf_exla.ir.graph import Array, Tensor


def _scatter(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Replace elements of a tensor."""
    x, indices, updates = call.inputs
    known = w.known(indices)
    if known is None or 0 in updates.dims or 0 in x.dims or not _replaces(call):
        return None
    begin = _window(call, known)
    if begin is not None:
        return [_written(w, call, begin, adds=False)]
    return _on_diagonal(w, call, known, adds=False)


def _replaces(call: Call) -> bool:
    """Return whether a scatter writes its updates; `x.at[i].apply` writes a function of `x`."""
    update = call.params.get("update_jaxpr")
    update = getattr(update, "jaxpr", update)  # it may be a closed jaxpr
    return update is None or (not update.eqns and update.outvars[0] is update.invars[1])


def _scatter_add(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Add to elements of a tensor, or to zeros, as the gradient of a gather does."""
    x, indices, updates = call.inputs
    if 0 in updates.dims or 0 in x.dims or kind_of(x.dtype) not in "fic":
        return None
    known = w.known(indices)
    begin = None if known is None else _window(call, known)
    if begin is not None:
        return [_written(w, call, begin, adds=True)]
    made = None if known is None else _on_diagonal(w, call, known, adds=True)
    if made is None and _is_zero(w, x):
        made = _segments(w, call) or _rows(w, call)
    return made


def _is_zero(w: Writer, x: Tensor) -> bool:
    value = w.bare(x).value
    return value is not None and not np.any(value)


def _window(call: Call, known: Array) -> list[int] | None:
    """Return where the written part begins; None unless it is one part at a known position.

    The part must be inside of the tensor.
    """
    x = call.inputs[0]
    how = call.params["dimension_numbers"]
    if known.ndim != 1 or how.operand_batching_dims:
        return None
    begin = [0] * len(x.dims)
    for place, axis in zip(known.tolist(), how.scatter_dims_to_operand_dims, strict=True):
        begin[axis] = place
    ends = zip(begin, _window_shape(call), x.dims, strict=True)
    return None if min(begin) < 0 or any(b + n > size for b, n, size in ends) else begin


def _window_shape(call: Call) -> list[int]:
    """Return the shape of one written part, in the axes of the whole tensor."""
    x, _, updates = call.inputs
    how = call.params["dimension_numbers"]
    sizes = iter([updates.dims[k] for k in how.update_window_dims])
    single = {*how.inserted_window_dims, *how.operand_batching_dims}
    return [1 if axis in single else next(sizes) for axis in range(len(x.dims))]


def _written(w: Writer, call: Call, begin: Sequence[int], adds: bool) -> Tensor:
    """Return a tensor with a part written at a known position."""
    x, _, updates = call.inputs
    shape = _window_shape(call)
    part = w.reshape(updates, shape)
    if _is_zero(w, x):
        ends = zip(begin, shape, x.dims, strict=True)
        pairs = [[b, size - b - n] for b, n, size in ends]
        return w.op("pad", part, w.const(pairs), shape=x.dims) if np.any(pairs) else part
    if adds:
        part = w.op("add", w.slice(x, begin, shape), part)
    if part.dims == x.dims:
        return part
    partial = [k for k, (a, b) in enumerate(zip(shape, x.dims, strict=True)) if a != b]
    if len(partial) > 1 and not w.inner:  # write whole rows, so that other axes can be split
        rows, first = list(x.dims), [0] * len(begin)
        rows[partial[0]], first[partial[0]] = shape[partial[0]], begin[partial[0]]
        inside = [0 if k == partial[0] else one for k, one in enumerate(begin)]
        part, begin = _updated(w, w.slice(x, first, rows), part, inside), first
    return _updated(w, x, part, begin)


def _updated(w: Writer, x: Tensor, part: Tensor, begin: Sequence[int]) -> Tensor:
    starts = [w.const(one) for one in begin]
    return apply(w, Call(lax.dynamic_update_slice_p, [x, part, *starts], {}, [Like(x)]))[0]


def _on_diagonal(w: Writer, call: Call, known: Array, adds: bool) -> Sequence[Tensor] | None:
    """Write to [i, i + k] for all i of a matrix."""
    x, _, updates = call.inputs
    how = call.params["dimension_numbers"]
    pair = tuple(how.scatter_dims_to_operand_dims)
    single = known.ndim == 2 and len(x.dims) == 2 and len(updates.dims) == 1
    if not single or pair != (0, 1) or tuple(how.inserted_window_dims) != pair:
        return None
    k = diagonal_at(known, *x.dims)
    if k is None:
        return None
    place = w.const(k)
    if adds:
        updates = w.op("add", diagonal(w, x, k), updates)
    return [w.op("matrix_set_diag", x, updates, place)]


def _inside(w: Writer, call: Call, axis: int) -> Tensor | None:
    """Return the indices along the only written axis, without the axis of coordinates."""
    x, indices, _ = call.inputs
    index = w.reshape(indices, indices.dims[:-1])
    if call.params["mode"] is GatherScatterMode.CLIP:
        index = clamped(w, index, x.dims[axis] - 1)
    return index


def _segments(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Add rows to zeros, at indices of rows."""
    x, _, updates = call.inputs
    how = call.params["dimension_numbers"]
    if len(how.scatter_dims_to_operand_dims) != 1 or how.operand_batching_dims:
        return None
    axis = int(how.scatter_dims_to_operand_dims[0])
    shape = _window_shape(call)
    rest = [size for k, size in enumerate(x.dims) if k != axis]
    if tuple(how.inserted_window_dims) != (axis,) or shape[:axis] + shape[axis + 1 :] != rest:
        return None
    index = _inside(w, call, axis)
    if index is None or not index.dims:
        return None
    outer = [k for k in range(len(updates.dims)) if k not in how.update_window_dims]
    rows = w.transpose(updates, [*outer, *how.update_window_dims])
    count = x.dims[axis]
    made = w.op("segment_sum", rows, index, w.const(count), shape=(count, *rest))
    order = list(range(1, len(x.dims)))
    order.insert(axis, 0)
    return [w.transpose(made, order)]


def _rows(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Add to zeros at columns of the same row: the gradient of `take_along_axis`."""
    x, indices, updates = call.inputs
    how = call.params["dimension_numbers"]
    batch = len(x.dims) - 1
    leading = tuple(range(batch))
    if not batch or how.operand_batching_dims != leading or how.update_window_dims:
        return None
    if how.scatter_indices_batching_dims != leading or len(indices.dims) != batch + 2:
        return None
    index = _inside(w, call, batch)
    known = None if index is None else w.known(index)
    if index is None or known is not None:
        return None
    if x.dims[-1] > jnp.iinfo(index.dtype).max:  # type: ignore[no-untyped-call]
        index = w.cast(index, "int32")
    count = w.const(x.dims[-1], index.dtype)
    outside = w.op("less", index, w.const(0, index.dtype))
    index = w.op("where", outside, count, index)
    return [w.op("scatter_rows", index, updates, w.const(list(x.dims)), shape=x.dims,
        dtype=x.dtype)]  # fmt: skip


def _outer(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Add to zeros at rows and columns that are independent of each other."""
    return outer_scatter_add(w, call) if _is_zero(w, call.inputs[0]) else None


def _flat(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Add to zeros at several coordinates that depend on each other."""
    x, _, updates = call.inputs
    if 0 in updates.dims or 0 in x.dims or kind_of(x.dtype) not in "fic" or not _is_zero(w, x):
        return None
    return flat_segments(w, call, _window_shape(call))


CONVERTERS: Mapping[str, Any] = {
    "scatter": first_of(_scatter, own_rows),
    "scatter-add": first_of(_scatter_add, _outer, own_rows, _flat),
    **dict.fromkeys(("scatter-max", "scatter-min", "scatter-mul", "scatter-sub"), own_rows),
}
