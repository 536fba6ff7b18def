"""Shapes of tensors in lists for the sizes of a call, where TensorFlow does not know them.

A list is created with a length and an element shape, both possibly unknown. The shapes written to
it determine the shapes read from it: if only rows of 3 elements were written, rows of 3 elements
are read. An item of unknown shape that was never written need not be considered, since TensorFlow
raises an error if it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from tf_exla.ir.graph import Array, Shape, Tensor


@dataclass(frozen=True, slots=True)
class Value:
    """A static value that can be compared."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @staticmethod
    def of(array: Array) -> Value | None:
        """Return an array's value, or None for text."""
        array = np.asarray(array)
        if array.dtype == object:
            return None
        return Value(array.dtype.name, array.shape, array.tobytes())

    @property
    def array(self) -> Array:
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class ListShape:
    """The length of a list and the shape of its tensors; None if unknown.

    `empty`: no tensor was written so far. `bare`: the list also has no items, whereas a reserved
    list has items that are not written yet. `value`: the static value that all tensors in the list
    have, if there is one.
    """

    count: int | None = None
    element: Shape | None = None
    empty: bool = False
    value: Value | None = None
    bare: bool = False

    @property
    def items(self) -> Shape | None:
        """The shape of each tensor, or None if unknown."""
        return None if self.empty else self.element

    def join(self, other: ListShape) -> ListShape:
        """Return what holds for both."""
        count = self.count if self.count == other.count else None
        value = (other if self.bare else self).value
        if not (self.bare or other.bare or self.value == other.value):
            value = None
        bare = self.bare and other.bare
        if self.empty or other.empty:
            return ListShape(count, (other if self.empty else self).element,
                             self.empty and other.empty, value, bare)  # fmt: skip
        return ListShape(count, widen(self.element, other.element), False, value, bare)

    def with_item(self, item: Tensor) -> ListShape:
        """Return the list's shape after an item was written."""
        value = None if item.value is None else Value.of(item.value)
        return self.join(ListShape(self.count, item.shape, value=value))


Lists = Mapping[Tensor, ListShape]


def made_list(
    kind: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], lists: Lists
) -> ListShape | None:
    """Return the shape of the list that an op makes, or None."""
    first = lists.get(inputs[0]) if inputs else None
    match kind:
        case "TensorListFromTensor":
            shape = inputs[0].shape
            return ListShape(shape[0], shape[1:]) if shape else None
        case "TensorListReserve":
            return ListShape(_number(inputs[1]), empty=True)
        case "EmptyTensorList":
            return ListShape(empty=True, bare=True)
        case "TensorListPushBack" if first is not None:
            return replace(first.with_item(inputs[1]), count=None)
        case "TensorListPopBack" if first is not None:
            return replace(first, count=None)
        case "TensorListSetItem" if first is not None:
            made = first.with_item(inputs[2])
            grows = bool(attrs.get("resize_if_index_out_of_bounds"))
            return ListShape(None if grows else made.count, made.element)
        case "Identity":
            return first
        case "ZerosLike" if first is not None:
            return replace(first, value=None)
        case "AddN" | "AddV2" if inputs[0].dtype == "variant":
            # TensorFlow adds lists of equal length, tensor by tensor.
            known = [lists.get(one, ListShape()) for one in inputs]
            count = next((one.count for one in known if one.count is not None), None)
            made = reduce(ListShape.join, known)
            return ListShape(count, made.element, made.empty)
    return None


def _got(known: ListShape) -> Shape | None:
    return known.element


def _stacked(known: ListShape) -> Shape | None:
    return None if known.element is None else (known.count, *known.element)


# Ops that read a list, with the position and the shape of the result that depends on it.
_READS: Mapping[str, tuple[int, Callable[[ListShape], Shape | None]]] = {
    "TensorListGetItem": (0, _got),
    "TensorListPopBack": (1, _got),
    "TensorListStack": (0, _stacked),
}


def read_shapes(
    kind: str, inputs: Sequence[Tensor], shapes: Sequence[Shape | None], lists: Lists
) -> list[Shape | None]:
    """Return the shapes of an op's results, refined by the shape of the list that it reads."""
    made = list(shapes)
    known = lists.get(inputs[0]) if kind in _READS else None
    if known is not None and not known.empty:
        position, read = _READS[kind]
        made[position] = _merged(made[position], read(known))
    return made


def repeated(kind: str, inputs: Sequence[Tensor], lists: Lists) -> Array | None:
    """Return the tensor that an op takes from a list if all in it have one static value.

    Examples are the shapes that the gradient of a loop reads, static for the sizes of a call.
    """
    known = lists.get(inputs[0]) if kind == "TensorListPopBack" else None
    return None if known is None or known.value is None else known.value.array


def asked(kind: str, inputs: Sequence[Tensor], lists: Lists, dtype: str) -> list[Array] | None:
    """Return the result of an op that queries the length or the element shape of a list.

    None if that is unknown, or for other ops. The shape is that of the tensors that were written;
    the list may have been declared with a less specific one.
    """
    known = lists.get(inputs[0]) if inputs else None
    if known is None:
        return None
    if kind == "TensorListLength" and known.count is not None:
        return [np.array(known.count, dtype)]
    items = known.items if kind == "TensorListElementShape" else None
    if items is None or None in items:
        return None
    return [np.array(items, dtype)]


def widen(left: Shape | None, right: Shape | None) -> Shape | None:
    """Return the most specific shape that covers both."""
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple(a if a == b else None for a, b in zip(left, right, strict=True))


def _merged(left: Shape | None, right: Shape | None) -> Shape | None:
    """Merge two shapes; the left one wins where they contradict each other."""
    if left is None or right is None or len(left) != len(right):
        return right if left is None else left
    return tuple(b if a is None else a for a, b in zip(left, right, strict=True))


def _number(tensor: Tensor) -> int | None:
    return None if tensor.value is None else int(tensor.value)
