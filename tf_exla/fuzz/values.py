"""Values of a random program, from which rows of the op table draw operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Shape = tuple[int, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]

MOST_ELEMENTS = 600_000
"""Elements of a tensor: far above `lifetimes.CHAIN_BYTES`, yet few enough to be fast."""

FLOATS = ("bfloat16", "float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
WIDE = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
REAL = (*FLOATS, *INTEGERS)
NUMBERS = (*REAL, *COMPLEX)
ALL = (*NUMBERS, "bool")


@dataclass(frozen=True)
class Value:
    """A tensor of the program; `exact`: in every plan, its chunks have the bits of the whole.

    Only exact values may be compared, rounded or ordered by position. For others a last bit
    decides, and a difference would mean nothing.
    """

    name: str
    shape: Shape
    dtype: str
    exact: bool

    @property
    def size(self) -> int:
        return count(self.shape)


@dataclass(frozen=True)
class Step:
    """One line of a program: `code` is the expression in TensorFlow."""

    code: str
    shape: Shape
    dtype: str
    exact: bool


@dataclass
class Pool:
    """The values that a step may read."""

    values: list[Value]

    def pick(
        self,
        draw: Draw,
        dtypes: Sequence[str] | None = None,
        rank: int | None = None,
        least_rank: int = 0,
        exact: bool = False,
    ) -> Value | None:
        """Draw a value that fits, preferring later ones; None if there is none."""
        found = [
            value
            for value in self.values
            if (dtypes is None or value.dtype in dtypes)
            and (rank is None or len(value.shape) == rank)
            and len(value.shape) >= least_rank
            and (value.exact or not exact)
        ]
        if not found:
            return None
        first = draw(st.integers(0, len(found) - 1))
        second = draw(st.integers(0, len(found) - 1))
        later: int = max(first, second)
        return found[later]


def count(shape: Shape) -> int:
    """Return the number of elements of a tensor."""
    return math.prod(shape)


def broadcast(left: Shape, right: Shape) -> Shape | None:
    """Return the shape that two shapes broadcast to; None if they do not."""
    made = []
    for k in range(1, max(len(left), len(right)) + 1):
        a = left[-k] if k <= len(left) else 1
        b = right[-k] if k <= len(right) else 1
        if a != b and 1 not in (a, b):
            return None
        made.append(b if a == 1 else a)
    return tuple(reversed(made))
