"""Tensors: the values of a program."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from tf_exla.ir.dtypes import short_dtype

Array = npt.NDArray[np.generic]
Shape = tuple[int | None, ...]

MOST_SLICED_AXES = 8
"""The most axes of a tensor that TensorFlow's kernels of slices accept."""

_ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "qint8": 1, "quint8": 1,
    "int16": 2, "uint16": 2, "qint16": 2, "quint16": 2, "float16": 2, "bfloat16": 2, "half": 2,
    "int32": 4, "uint32": 4, "float32": 4, "qint32": 4,
    "int64": 8, "uint64": 8, "float64": 8, "complex64": 8,
    "complex128": 16,
    "string": 24,  # the size of TensorFlow's tstring, without its heap part
    "resource": 0, "variant": 0,  # what they hold is counted in `Tensor.held`
}  # fmt: skip


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element of `dtype`; one byte for dtypes that are not known."""
    return _ITEM_BYTES.get(dtype, 1)


def is_number(dtype: str) -> bool:
    """Return whether tensors of `dtype` are numbers of a known size, of which there is a zero."""
    return dtype in _ITEM_BYTES and dtype not in ("string", "resource", "variant")


class _Weak:
    """A base class with the slot for weak references: `weakref_slot` needs Python 3.11."""

    __slots__ = ("__weakref__",)


@dataclass(eq=False, slots=True, init=False)
class Tensor(_Weak):
    """One value of the program.

    Only type checkers enforce that it is immutable: a frozen dataclass takes five times as long to
    construct, and planning constructs hundreds of thousands.

    `shape`: static sizes; None for an unknown size, and None as a whole for an unknown rank.
    `value`: the static value, where it is known and small (axes, shapes, scalars).
    `held`: bytes behind a handle (the variable of a resource); `holds`: what they are, in words.
    `origin`: the tensor of which it is a copy, if a pass computes the same numbers again.
    `items`: the shape of each tensor in a list; None if it is unknown, or this is no list.
    `size`, `nbytes`: elements and bytes of the tensor itself; 0 if the shape is unknown.
    `is_open`: its size, or the content of a list, is known only at run time.
    """

    shape: Final[Shape | None]
    dtype: Final[str]
    name: Final[str]
    value: Final[Array | None]
    held: Final[int]
    origin: Final[Tensor | None]
    holds: Final[str]
    items: Final[Shape | None]
    is_static: bool = field(init=False)
    size: int = field(init=False)
    nbytes: int = field(init=False)
    is_open: bool = field(init=False)

    # Many parameters: its fields.
    def __init__(
        self,
        shape: Shape | None,
        dtype: str,
        name: str = "",
        value: Array | None = None,
        held: int = 0,
        origin: Tensor | None = None,
        holds: str = "",
        items: Shape | None = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.value = value
        self.held = held
        self.origin = origin
        self.holds = holds
        self.items = items
        # Computed once: projections read them all the time.
        static = shape is not None and None not in shape
        size = math.prod(shape) if static else 0  # type: ignore[arg-type]
        self.is_static = static
        self.size = size
        self.nbytes = size * _ITEM_BYTES.get(dtype, 1)
        self.is_open = dtype == "variant" if static else dtype != "resource"

    @property
    def is_real(self) -> bool:
        """Whether it has a floating-point dtype, and so may hold NaN, infinity and -0."""
        return self.dtype.startswith(("float", "bfloat"))

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, which must be static."""
        if not self.is_static:
            raise ValueError(f"{self} has an unknown rank or dimension")
        assert self.shape is not None
        return self.shape  # type: ignore[return-value]

    @property
    def axes(self) -> Shape | None:
        """The shape that axis rules refer to; for a list, that of each of its tensors."""
        return self.items if self.dtype == "variant" else self.shape

    def with_axes(self, axes: Shape, name: str) -> Tensor:
        """Return a tensor of other `axes` with the same dtype and held bytes, but no value."""
        if self.dtype == "variant":
            return Tensor(self.shape, self.dtype, name, held=self.held, items=axes)
        return Tensor(axes, self.dtype, name, held=self.held)

    def fresh_copy(self) -> Tensor:
        """Return another tensor of the same shape, type, name and static value."""
        return Tensor(
            self.shape, self.dtype, self.name, self.value, self.held, None, self.holds, self.items
        )

    def copy(self) -> Tensor:
        """Return a tensor for the same numbers, recomputed, with its `origin` set."""
        return dataclasses.replace(self, origin=self.origin or self)

    def __str__(self) -> str:
        if self.shape is None:
            sizes = "?"
        else:
            sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} {short_dtype(self.dtype)}[{sizes}]"

    __repr__ = __str__
