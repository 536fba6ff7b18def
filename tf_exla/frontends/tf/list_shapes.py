"""Shapes of the tensors in lists, where TensorFlow does not know them for the sizes of the call.

A list is made with a number of places and an element shape, both possibly unknown. What is written
to it says what is read from it: a list that only rows of 3 elements were written to gives rows of 3
elements, since TensorFlow raises an error where it reads a place of unknown shape that nothing was
written to.
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
        """Return an array's value; of text there is none."""
        array = np.asarray(array)
        if array.dtype == object:
            return None
        return Value(array.dtype.name, array.shape, array.tobytes())

    @property
    def array(self) -> Array:
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class ListShape:
    """The number of places of a list and the shape of its tensors; None where not known.

    `empty`: nothing with a shape of its own was written so far. `value`: that of each tensor in it;
    `bare`: there is none in it.
    """

    count: int | None = None
    element: Shape | None = None
    empty: bool = False
    value: Value | None = None
    bare: bool = False

    @property
    def items(self) -> Shape | None:
        """The shape of each tensor; None where it is not known."""
        return None if self.empty else self.element

    def join(self, other: ListShape) -> ListShape:
        """Return what is true of both."""
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
        """Return what is known after an item was written."""
        value = None if item.value is None else Value.of(item.value)
        return self.join(ListShape(self.count, item.shape, value=value))


Lists = Mapping[Tensor, ListShape]


def made_list(
    kind: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], lists: Lists
) -> ListShape | None:
    """Return what is known of the list that an op makes."""
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
            # TensorFlow adds lists of as many places, tensor by tensor.
            known = [lists.get(one, ListShape()) for one in inputs]
            count = next((one.count for one in known if one.count is not None), None)
            made = reduce(ListShape.join, known)
            return ListShape(count, made.element, made.empty)
    return None


def _got(known: ListShape) -> Shape | None:
    return known.element


def _stacked(known: ListShape) -> Shape | None:
    return None if known.element is None else (known.count, *known.element)


# Ops that read a list, with the place of the result that has the shape.
_READS: Mapping[str, tuple[int, Callable[[ListShape], Shape | None]]] = {
    "TensorListGetItem": (0, _got),
    "TensorListPopBack": (1, _got),
    "TensorListStack": (0, _stacked),
}


def read_shapes(
    kind: str, inputs: Sequence[Tensor], shapes: Sequence[Shape | None], lists: Lists
) -> list[Shape | None]:
    """Return the shapes of an op's results with what is known of the list that it reads."""
    made = list(shapes)
    known = lists.get(inputs[0]) if kind in _READS else None
    if known is not None and not known.empty:
        position, read = _READS[kind]
        made[position] = _merged(made[position], read(known))
    return made


def repeated(kind: str, inputs: Sequence[Tensor], lists: Lists) -> Array | None:
    """Return the tensor that an op takes from a list, where all in it have one static value.

    The shapes that the gradient of a loop reads are such: static for the sizes of a call.
    """
    known = lists.get(inputs[0]) if kind == "TensorListPopBack" else None
    return None if known is None or known.value is None else known.value.array


def asked(kind: str, inputs: Sequence[Tensor], lists: Lists, dtype: str) -> list[Array] | None:
    """Return the result of an op that asks for number or shape of a list's tensors, where known.

    A list may know less of the shape than was written to it: what is made of it fits both.
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
    """Return the shape that both are cases of."""
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple(a if a == b else None for a, b in zip(left, right, strict=True))


def _merged(left: Shape | None, right: Shape | None) -> Shape | None:
    """Return what either knows; the left where they contradict each other."""
    if left is None or right is None or len(left) != len(right):
        return right if left is None else left
    return tuple(b if a is None else a for a, b in zip(left, right, strict=True))


def _number(tensor: Tensor) -> int | None:
    return None if tensor.value is None else int(tensor.value)
