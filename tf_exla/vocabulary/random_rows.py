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


def drawn_together(dims: Sequence[int], attrs: Mapping[str, object], itemsize: int) -> int:
    """Return of how many rows all numbers are drawn at once, if only parts of them are needed.

    For long rows it is 0: the part of each row is drawn by itself.
    """
    whole = attrs["row"]
    assert isinstance(whole, int)
    if whole > _LONG or dims[0] == 1:
        return 0
    most = max(1, BLOCK_BYTES // (whole * itemsize))
    return -(-dims[0] // -(-dims[0] // most)) if dims[0] else 0  # of equal blocks


_LONG = 2000
"""Numbers that are drawn in the 20 us that a draw takes at least."""
BLOCK_BYTES = 1 << 18
"""Of the numbers that are drawn at once: 100 us, next to which the draw's own time is small."""
