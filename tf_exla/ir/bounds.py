"""Upper bounds of tensors whose sizes are known only at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tf_exla.ir.graph import Array, Shape, Tensor

HANDLES = frozenset({"resource", "variant"})

# An integer tensor of up to this many elements may be a shape, or a part of one. Of larger tensors,
# only the largest integer is kept.
SHAPE_ELEMENTS = 64


@dataclass(frozen=True, slots=True)
class Most:
    """Upper bounds of one tensor; None where there is no bound.

    `dims`: bounds of its sizes; None if the rank is unknown. `size`: bound of the number of
    elements. `value`: bounds of its integers, one for each element or one for all of them; None for
    an element that may mean something else, as -1 does in a shape. `below`: how far below zero its
    integers may be, if they have bounds; None if that is unknown.
    """

    dims: Shape | None = None
    size: int | None = None
    value: Shape | None = None
    below: int | None = 0

    @classmethod
    def of(cls, tensor: Tensor) -> Most:
        """Return the bounds that follow from a tensor's static shape and value."""
        value = tensor.value
        if value is None or value.dtype.kind not in "iu":
            return _of_shape(tensor.shape, tensor.size if tensor.is_static else None)
        below = max(0, -int(value.min())) if value.size else 0
        return cls(tensor.shape, tensor.size, _integers(value), below)

    @property
    def top(self) -> int | None:
        """One upper bound for all its integers; None if there is none."""
        return None if self.value is None else highest(self.value)

    def integers_within(self, other: Most) -> bool:
        """Return whether the integers are known to be within the bounds of another tensor's."""
        top, most = self.top, other.top
        if most is None:
            return True
        below = other.below is None or (self.below is not None and self.below <= other.below)
        return below and top is not None and top <= most

    def within(self, shape: Shape | None) -> Most:
        """Return the bounds, tightened by a shape, in which None is an unknown size.

        The bounds of sizes and of the number of elements also tighten each other.
        """
        dims = self.dims
        if shape is not None:
            if dims is None or len(dims) != len(shape):
                dims = (None,) * len(shape)
            dims = tuple(a if b is None else b for a, b in zip(dims, shape, strict=True))
        size = self.size
        if dims is not None:
            open_ = [axis for axis, one in enumerate(dims) if one is None]
            known = math.prod(one for one in dims if one is not None)
            # Only static sizes are exact: dividing by an upper bound would give no bound.
            sure = math.prod(one for one in shape or () if one is not None)
            if not open_:
                size = known if size is None else min(size, known)
            elif len(open_) == 1 and size is not None and sure:
                axis = open_[0]
                dims = (*dims[:axis], size // sure, *dims[axis + 1 :])
        return replace(self, dims=dims, size=size)

    def at_most(self, size: int | None) -> Most:
        """Return these bounds for a tensor of at most `size` elements; None adds no bound."""
        if size is None or (self.size is not None and self.size <= size):
            return self
        return replace(self, size=size)

    def join(self, other: Most) -> Most:
        """Return bounds that hold for either of two tensors."""
        dims: Shape | None = None
        if self.dims is not None and other.dims is not None and len(self.dims) == len(other.dims):
            dims = tuple(map(highest, zip(self.dims, other.dims, strict=True)))
        value = self.value
        if value != other.value:
            top = highest((self.top, other.top))
            value = None if top is None else (top,)
        size = highest((self.size, other.size))
        return Most(dims, size, value, highest((self.below, other.below)))

    def static(self, tensor: Tensor) -> Tensor | None:
        """Return a tensor of the largest sizes; None if a size has no bound."""
        if tensor.is_static:
            return tensor
        if self.dims is not None and None not in self.dims:
            return Tensor(self.dims, tensor.dtype, tensor.name)
        return None


def highest(bounds: Sequence[int | None]) -> int | None:
    """Return the largest of several bounds; None if one of them is unknown."""
    return None if None in bounds else max((one for one in bounds if one is not None), default=0)


@lru_cache(maxsize=1 << 12)  # the same few shapes are looked up very often
def _of_shape(shape: Shape | None, size: int | None) -> Most:
    return Most(shape, size)


def _integers(value: Array) -> Shape | None:
    """Return the integers of a static value, None for each negative one.

    If there are more than `SHAPE_ELEMENTS`, return only the largest, or None if any is negative.
    """
    if value.size > SHAPE_ELEMENTS:
        return None if bool(np.any(value < 0)) else (int(value.max()),)  # type: ignore[operator]
    return tuple(None if one < 0 else int(one) for one in np.ravel(value))


def largest(operands: Sequence[Most]) -> int | None:
    """Return a bound of the number of elements of the largest operand."""
    return highest([one.size for one in operands])
