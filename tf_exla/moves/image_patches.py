"""Patches of images, written as rows and columns taken by index.

A chunk of the places at which a window is read then takes only the rows that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor


def patches(w: Builder, node: Node) -> Tensor:
    """patches(x) = x at the rows, then at the columns, that each place reads; 0 outside of x

    [n, rows, columns, c] -> [n, p, q, h w c] for windows of h rows and w columns at places (p, q).
    """
    x = node.inputs[0]
    batch, _, _, channels = x.dims
    (p, high), (q, wide) = (_sizes(node, axis) for axis in (1, 2))
    rows, inside_rows = _places(w, node, 1)
    columns, inside_columns = _places(w, node, 2)
    taken = w.op("take", x, rows, w.const(1))  # [n, p, h, columns, c]
    taken = w.op("take", taken, columns, w.const(3))  # [n, p, h, q, w, c]
    taken = w.op("permute_dims", taken, w.const([0, 1, 3, 2, 4, 5]))
    for inside, shape in (
        (inside_rows, [1, p, 1, high, 1, 1]),
        (inside_columns, [1, 1, q, 1, wide, 1]),
    ):
        if inside is not None:
            kept = w.op("reshape", inside, w.const(shape))
            taken = w.op("where", kept, taken, w.zeros(x))
    return w.op("reshape", taken, w.const([batch, p, q, high * wide * channels]))


def _places(w: Builder, node: Node, axis: int) -> tuple[Tensor, Tensor | None]:
    """Return the indices that each place reads along an axis, and which of them are in the image.

    Both are [places, elements of a window]. None instead of the latter: all are.
    """
    size, (places, steps) = node.inputs[0].dims[axis], _sizes(node, axis)
    stride, rate = (_attribute(node, name)[axis] for name in ("strides", "rates"))
    reached = (places - 1) * stride + (steps - 1) * rate + 1
    before = max(reached - size, 0) // 2 if _padded(node) else 0
    starts = w.op("multiply", w.positions(places, 0, 2), w.const(stride))
    offsets = w.op("multiply", w.positions(steps, 1, 2), w.const(rate))
    index = w.op("add", starts, w.op("subtract", offsets, w.const(before)))
    if reached <= size:
        return index, None
    last = w.const(size - 1)
    clipped = w.op("minimum", w.op("maximum", index, w.const(0)), last)
    return clipped, w.op("equal", clipped, index)


def _sizes(node: Node, axis: int) -> tuple[int, int]:
    """Return the number of places along an axis, and the number of elements that each reads."""
    return node.output.dims[axis], _attribute(node, "ksizes")[axis]


def _attribute(node: Node, name: str) -> Sequence[int]:
    values: Any = node.attrs[name]
    return [int(value) for value in values]


def _padded(node: Node) -> bool:
    padding = node.attrs["padding"]
    return (padding.decode() if isinstance(padding, bytes) else padding) == "SAME"
