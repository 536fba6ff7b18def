"""Gathers and scatters at `x[arange(n), columns]`, as in a cross-entropy: each index its own row.

Primitives would need such a matrix whole. But an axis that is addressed by the numbers 0, 1, ... of
its elements is an axis of a batch, along which a gather, a scatter and their operands may be split.
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
"""What gathers and scatters call the addressed axes of the operand, those of these that the result
or the updates lack, and the batch axes of the indices."""


def own_rows(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Write a gather or scatter with a batch; None if no axis is addressed by its own numbers."""
    batched = _batched(w, call)
    return None if batched is None else apply(w, batched)


def _batched(w: Writer, call: Call) -> Call | None:
    """Return a call with one more axis in its batch; None if no axis is read at its own numbers."""
    x, indices, *updates = call.inputs
    how = call.params["dimension_numbers"]
    addressed, dropped, batch = FIELDS["scatter" if updates else "gather"]
    axes = getattr(how, addressed)
    if len(axes) < 2:  # the last one stays: an index has at least one coordinate
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
            "indices_are_sorted": False,  # said of pairs, not of the columns that are left
        }
        inputs = [x, _other_coordinates(w, indices, column), *updates]
        return Call(call.primitive, inputs, params, call.avals, call.effects, call.context)
    return None


def _without(axes: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(one for one in axes if one != axis)


def _numbered(places: Array, size: int) -> int | None:
    """Return the axis along which places count from 0 to `size` - 1; None if there is none."""
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
    """Return what indices are concatenated of, each with its first coordinate."""
    node = w.ancestor(indices, "concat")
    if node is None or int(node.inputs[-1].value) != len(indices.dims) - 1:  # type: ignore
        return []
    parts = node.inputs[:-1]
    begins = np.cumsum([0, *(part.dims[-1] for part in parts)])
    return [(part, int(begin)) for part, begin in zip(parts, begins, strict=False)]
