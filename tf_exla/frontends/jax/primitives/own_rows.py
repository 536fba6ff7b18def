"""Gathers and scatters at `x[arange(n), columns]`, as in a cross-entropy, get a batch axis.

As primitives, they need the matrix whole. But if index k along an axis addresses row k, the axis is
a batch axis, along which a gather, a scatter and their operands can be split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.jax.jaxprs.inlining import apply
from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.ir.graph import Array, Tensor

FIELDS = {
    "gather": ("start_index_map", "collapsed_slice_dims", "start_indices_batching_dims"),
    "scatter": (
        "scatter_dims_to_operand_dims",
        "inserted_window_dims",
        "scatter_indices_batching_dims",
    ),
}
"""The names in JAX's dimension numbers, for gathers and for scatters, of three lists of axes: the
addressed axes of the operand, those of them that the result or the updates do not have, and the
batch axes of the indices."""


def own_rows(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Write a gather or scatter with a batch axis; None if no axis can be one."""
    batched = _batched(w, call)
    return None if batched is None else apply(w, batched)


def _batched(w: Writer, call: Call) -> Call | None:
    """Return a call with one more batch axis; None if at no axis index k addresses element k."""
    x, indices, *updates = call.inputs
    how = call.params["dimension_numbers"]
    addressed, dropped, batch = FIELDS["scatter" if updates else "gather"]
    axes = getattr(how, addressed)
    if len(axes) < 2:  # an index must keep at least one coordinate
        return None
    for column, axis in enumerate(axes):
        places = coordinate(w, indices, column) if axis in getattr(how, dropped) else None
        at = None if places is None else _numbered(places, x.dims[axis])
        if at is None or at in getattr(how, batch):
            continue
        rows = {**dict(zip(how.operand_batching_dims, getattr(how, batch), strict=True)), axis: at}
        names = {
            addressed: _without(axes, axis),
            dropped: _without(getattr(how, dropped), axis),
            "operand_batching_dims": tuple(sorted(rows)),
            batch: tuple(rows[one] for one in sorted(rows)),
        }
        params: dict[str, Any] = {
            **call.params,
            "dimension_numbers": how._replace(**names),
            "indices_are_sorted": False,  # pairs may be sorted even if the columns are not
        }
        inputs = [x, _other_coordinates(w, indices, column), *updates]
        return Call(call.primitive, inputs, params, call.avals, call.effects, call.context)
    return None


def _without(axes: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(one for one in axes if one != axis)


def _numbered(places: Array, size: int) -> int | None:
    """Return the axis of `places` along which they are 0, 1, ..., `size` - 1; None if none is."""
    for axis, count in enumerate(places.shape):
        line = np.arange(size).reshape([-1 if k == axis else 1 for k in range(places.ndim)])
        if count == size > 1 and np.array_equal(places, np.broadcast_to(line, places.shape)):
            return axis
    return None


def coordinate(w: Writer, indices: Tensor, column: int) -> Array | None:
    """Return one coordinate of all indices, if it is known."""
    known = w.known(indices)
    if known is not None:
        return known[..., column]
    for part, begin in parts_of(w, indices):
        known = w.known(part)
        if known is not None and begin <= column < begin + part.dims[-1]:
            return known[..., column - begin]
    return None


def _other_coordinates(w: Writer, indices: Tensor, column: int) -> Tensor:
    """Return the indices without a coordinate."""
    known = w.known(indices)
    if known is not None:
        return w.const(np.delete(known, column, -1), indices.dtype)
    last = len(indices.dims) - 1
    left = []
    for part, begin in parts_of(w, indices):
        if not begin <= column < begin + part.dims[-1]:
            left.append(part)
        elif part.dims[-1] > 1:
            rest = np.delete(np.asarray(w.known(part)), column - begin, -1)
            left.append(w.const(rest, part.dtype))
    return left[0] if len(left) == 1 else w.op("concat", *left, w.const(last))


def parts_of(w: Writer, indices: Tensor) -> list[tuple[Tensor, int]]:
    """Return the tensors of which `indices` are concatenated, each with its first coordinate.

    Empty if they are not concatenated along the axis of coordinates.
    """
    node = w.ancestor(indices, "concat")
    if node is None or int(node.inputs[-1].value) != len(indices.dims) - 1:  # type: ignore
        return []
    parts = node.inputs[:-1]
    begins = np.cumsum([0, *(part.dims[-1] for part in parts)])
    return [(part, int(begin)) for part, begin in zip(parts, begins, strict=False)]
