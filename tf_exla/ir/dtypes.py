"""Names of dtypes, and bits of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

INTEGERS = frozenset({"int32", "int64"})
"""The dtypes of sizes and positions."""


def short_dtype(dtype: str) -> str:
    """Return the usual abbreviation: `float64` -> `f64`."""
    for long, short in (
        ("bfloat", "bf"),
        ("float", "f"),
        ("uint", "u"),
        ("int", "i"),
        ("complex", "c"),
    ):
        if dtype.startswith(long):
            return short + dtype.removeprefix(long)
    return dtype


def repeats_one(array: npt.NDArray[np.generic]) -> bool:
    """Return whether all elements of an array have the same bits."""
    if not array.size or array.dtype.hasobject:
        return False
    flat = np.ascontiguousarray(array).reshape(-1).view(f"V{array.dtype.itemsize}")
    return bool(np.all(flat == flat[0]))
