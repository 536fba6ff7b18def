"""Upper bounds of tensors whose sizes are known at run time only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tf_exla.ir.graph import Array, Shape, Tensor

HANDLES = frozenset({"resource", "variant"})

# An integer tensor of up to so many elements may be a shape, or a part of one: of more, only the
# largest is kept.
SHAPE_ELEMENTS = 64


@dataclass(frozen=True, slots=True)
class Most:
    """Upper bounds of one tensor; None where there is none.

    `dims`: of each size; None where the rank is not known. `size`: of the number of elements.
    `value`: of its integers: one for each element, or one for all of them. Of an element that may
    stand for something else, as -1 does in a shape, None.
    """

    dims: Shape | None = None
    size: int | None = None
    value: Shape | None = None

    @classmethod
    def of(cls, tensor: Tensor) -> Most:
        """Return what the tensor itself tells."""
        return cls(tensor.shape, tensor.size if tensor.is_static else None, _integers(tensor.value))

    @property
    def top(self) -> int | None:
        """The bound of all integers."""
        return None if self.value is None else highest(self.value)

    def within(self, shape: Shape | None) -> Most:
        """Return the same bounds for a tensor of this static shape, each as tight as the others."""
        dims = self.dims
        if shape is not None:
            if dims is None or len(dims) != len(shape):
                dims = (None,) * len(shape)
            dims = tuple(a if b is None else b for a, b in zip(dims, shape, strict=True))
        size = self.size
        if dims is not None:
            open_ = [axis for axis, one in enumerate(dims) if one is None]
            known = math.prod(one for one in dims if one is not None)
            # Of the other sizes only the static ones are certain to be as large as that.
            sure = math.prod(one for one in shape or () if one is not None)
            if not open_:
                size = known if size is None else min(size, known)
            elif len(open_) == 1 and size is not None and sure:
                axis = open_[0]
                dims = (*dims[:axis], size // sure, *dims[axis + 1 :])
        return replace(self, dims=dims, size=size)

    def at_most(self, size: int | None) -> Most:
        """Return the same bounds for a tensor of at most `size` elements; None says nothing."""
        if size is None or (self.size is not None and self.size <= size):
            return self
        return replace(self, size=size)

    def join(self, other: Most) -> Most:
        """Return bounds of what is either of both."""
        dims: Shape | None = None
        if self.dims is not None and other.dims is not None and len(self.dims) == len(other.dims):
            dims = tuple(map(highest, zip(self.dims, other.dims, strict=True)))
        value = self.value
        if value != other.value:
            top = highest((self.top, other.top))
            value = None if top is None else (top,)
        return Most(dims, highest((self.size, other.size)), value)

    def static(self, tensor: Tensor) -> Tensor | None:
        """Return a tensor of the largest sizes; None where some have no bound."""
        if tensor.is_static:
            return tensor
        if self.dims is not None and None not in self.dims:
            return Tensor(self.dims, tensor.dtype, tensor.name)
        return None


def highest(bounds: Sequence[int | None]) -> int | None:
    """Return a bound of what all of these bound; None where one is not known."""
    return None if None in bounds else max((one for one in bounds if one is not None), default=0)


def _integers(value: Array | None) -> Shape | None:
    """Return the integers of a static value, None for those below zero; the largest of many."""
    if value is None or value.dtype.kind not in "iu":
        return None
    if value.size > SHAPE_ELEMENTS:
        return None if bool(np.any(value < 0)) else (int(value.max()),)  # type: ignore[operator]
    return tuple(None if one < 0 else int(one) for one in np.ravel(value))


def largest(operands: Sequence[Most]) -> int | None:
    """Return the number of elements of the largest operand."""
    return highest([one.size for one in operands])
