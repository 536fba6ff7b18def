"""`random_rows(rows, columns, shape, ...)`: rows and columns of a random tensor, by their numbers.

The attribute `row` has the length of a whole row of that tensor. See `moves/random_rows.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def numbers_of_a_counter(itemsize: int) -> int:
    """Return how many numbers one counter yields, or how many are drawn together."""
    return 2 if itemsize == 8 else 4


def are_parts(dims: Sequence[int], attrs: Mapping[str, object]) -> bool:
    """Return whether the rows of a result are parts of rows, each of which is drawn by itself."""
    whole = attrs["row"]
    assert isinstance(whole, int)
    return math.prod(dims[1:]) < whole
