"""The elements that a `strided_slice` reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tf_exla.ir.graph import Node

_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def masks_of(node: Node) -> dict[str, int]:
    """Return the masks of a `strided_slice`: a bit for each of its parts."""
    return {key: int(str(node.attrs.get(f"{key}_mask", 0))) for key in _MASKS}


def strided_index(
    node: Node, begin: Iterable[int], end: Iterable[int], strides: Iterable[int]
) -> tuple[Any, ...]:
    """Return what a `strided_slice` reads as an index of an array."""
    mask, index = masks_of(node), list[Any]()
    for k, (b, e, s) in enumerate(zip(begin, end, strides, strict=True)):
        if mask["ellipsis"] >> k & 1:
            index.append(...)
        elif mask["new_axis"] >> k & 1:
            index.append(None)
        elif mask["shrink_axis"] >> k & 1:
            index.append(b)
        else:
            index.append(
                slice(None if mask["begin"] >> k & 1 else b, None if mask["end"] >> k & 1 else e, s)
            )
    return tuple(index)
