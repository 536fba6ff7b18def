"""Reads of a single index along an axis of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.slicing import masks_of


class Read(NamedTuple):
    """A node that reads one index along `axis`; `wraps`: a negative index counts from the end.

    `at`: the index, a tensor or a known number.
    """

    node: Node
    at: Tensor | int
    axis: int
    wraps: bool = False


class Rows(NamedTuple):
    """The rows of a tensor along an axis, as `size` rows of `whole`: first, first + step, ..."""

    whole: Tensor
    size: int
    first: int = 0
    step: int = 1


def read_of(node: Node, variable: Tensor, made_by: Mapping[Tensor, Node]) -> Read | None:
    """Return how a node reads one index of `variable`; None if it reads it in another way."""
    if node.inputs[0] is not variable or variable in node.inputs[1:]:
        return None
    if len(node.outputs) != 1 or not node.output.is_static:
        return None
    found = _read_of(node, made_by)
    # Positions in a block are computed in the dtype of the index, so a short one may overflow.
    narrow = found is not None and isinstance(found.at, Tensor) and found.at.dtype not in _INDICES
    return None if narrow else found


def _read_of(node: Node, made_by: Mapping[Tensor, Node]) -> Read | None:
    if node.op == "list_get":
        return Read(node, node.inputs[1], 0)
    if node.op == "take":
        axis = node.inputs[2].value
        plain = node.inputs[1].shape == () and not node.attrs.get("batch_dims")
        rank = len(node.inputs[0].axes or ())
        if not plain or axis is None or not rank:
            return None
        return Read(node, node.inputs[1], int(axis) % rank)
    return _strided(node, made_by) if node.op == "strided_slice" else None


def _strided(node: Node, made_by: Mapping[Tensor, Node]) -> Read | None:
    """Return a read of `x[..., i, ...]` in which all other axes are whole."""
    mask, axes = masks_of(node), node.inputs[0].axes
    steps, begin = node.inputs[3].value, made_by.get(node.inputs[1])
    if steps is None or (steps != 1).any() or axes is None or mask["new_axis"]:
        return None
    if mask["shrink_axis"].bit_count() != 1:
        return None
    part = mask["shrink_axis"].bit_length() - 1  # of the parts of the index, `...` is one
    others = (1 << len(steps)) - 1 - (1 << part) - mask["ellipsis"]
    if mask["begin"] & others != others or mask["end"] & others != others:
        return None
    if (mask["begin"] | mask["end"]) >> part & 1:
        return None
    after = 0 < mask["ellipsis"] < 1 << part
    axis = len(axes) - len(steps) + part if after else part
    static = node.inputs[1].value
    if static is not None:
        return Read(node, int(static[part]), axis, wraps=True)
    if begin is None or begin.op != "stack":
        return None
    return Read(node, begin.inputs[part], axis, wraps=True)


def rows_of(tensor: Tensor, axis: int, made_by: Mapping[Tensor, Node]) -> Rows:
    """Return a tensor's rows as rows of the tensor from which it was sliced or reversed."""
    rows = Rows(tensor, tensor.dims[axis])
    while (node := made_by.get(rows.whole)) is not None and node.inputs:
        source = node.inputs[0]
        found = _span(node, axis) if source.is_static else None
        if found is None:
            return rows
        first, step = found
        rows = Rows(source, rows.size, first + step * rows.first, step * rows.step)
    return rows


def _span(node: Node, axis: int) -> tuple[int, int] | None:
    """Return the first index and step of a node that slices or reverses only `axis`, else None."""
    before, after = node.inputs[0].dims, node.outputs[0].shape
    if after is None or len(before) != len(after):
        return None
    if any(a != b for k, (a, b) in enumerate(zip(before, after, strict=True)) if k != axis):
        return None
    values = [tensor.value for tensor in node.inputs[1:]]
    if node.op == "slice" and values[0] is not None:
        return int(values[0][axis]), 1
    if node.op == "flip" and values[0] is not None:
        turned = [int(one) % len(before) for one in values[0].ravel()]
        return (before[axis] - 1, -1) if turned == [axis] else None
    if node.op != "strided_slice":
        return None
    mask, begin, steps = masks_of(node), values[0], values[2]
    if begin is None or steps is None:
        return None
    if mask["ellipsis"] or mask["new_axis"] or mask["shrink_axis"]:
        return None
    if any(step != 1 for k, step in enumerate(steps) if k != axis):
        return None
    if axis >= len(steps):
        return 0, 1
    step, size = int(steps[axis]), before[axis]
    first = int(begin[axis])
    if mask["begin"] >> axis & 1:
        first = 0 if step > 0 else size - 1
    first = first + size if first < 0 else first
    return min(max(first, 0), size - 1), step


_INDICES = ("int32", "int64")
