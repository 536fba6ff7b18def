"""Triangles and diagonals, which programs write as comparisons of row and column numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tf_exla.frontends.jax.jaxprs.writer import Writer
from tf_exla.ir.graph import Tensor

ANY = -1
"""The operand of `band_part` that keeps all diagonals on one side of the main diagonal."""


class Band(NamedTuple):
    """The elements [i, j] of matrices with least <= j - i <= most; None: no bound."""

    least: int | None
    most: int | None


def band_of(w: Writer, mask: Tensor) -> Band | None:
    """Return the band where a mask that compares row and column numbers is true; else None."""
    node = w.walk.maker.get(mask)
    if node is None or node.op not in _MIRRORED:
        return None
    left, right = (_ramp(w, one) for one in node.inputs)
    if left is None or right is None or left[0] == right[0]:
        return None
    op = node.op if left[0] == -2 else _MIRRORED[node.op]
    row, column = sorted((left, right))
    offset = row[1] - column[1]  # true where i + offset `op` j
    match op:
        case "equal":
            return Band(offset, offset)
        case "greater_equal":
            return Band(None, offset)
        case "greater":
            return Band(None, offset - 1)
        case "less_equal":
            return Band(offset, None)
    return Band(offset + 1, None)


_MIRRORED = {
    "equal": "equal", "greater": "less", "greater_equal": "less_equal", "less": "greater",
    "less_equal": "greater_equal",
}  # fmt: skip
"""Comparisons, and the same comparisons with exchanged operands."""


def _ramp(w: Writer, tensor: Tensor) -> tuple[int, int] | None:
    """Return the axis (-1 or -2) along which a tensor counts by one, and its first number.

    None if it does not.
    """
    numbers = w.known(tensor)
    if numbers is None or numbers.ndim < 2 or numbers.dtype.kind not in "iu":
        return None
    if numbers.size != max(numbers.shape[-2:]) or numbers.size <= 1:
        return None
    if np.any(np.diff(numbers.ravel().astype(np.int64)) != 1):
        return None
    return (-1 if numbers.shape[-1] > 1 else -2), int(numbers.ravel()[0])


def select_band(w: Writer, mask: Tensor, x: Tensor, other: Tensor) -> Tensor | None:
    """Return `where(mask, x, other)` as a band of `x` or a diagonal matrix, or None."""
    if len(x.dims) < 2 or other.value is None or other.value.size != 1:
        return None
    if np.any(other.value) or x.dtype == "bool":
        return None
    band = band_of(w, mask)
    shape = np.broadcast_shapes(mask.dims, x.dims)
    if band is None or mask.dims[-2:] != shape[-2:]:
        return None
    if band == (0, 0) and shape[-1] == shape[-2]:
        return diagonal_matrix(w, _on_diagonal(w, x, shape[-1]))
    low = ANY if band.least is None else -band.least
    high = ANY if band.most is None else band.most
    beside = (band.least or 0) > 0 or (band.most or 0) < 0  # `band_part` has the main diagonal
    if x.dims != shape or beside:
        return None
    if _is_lower(w, x) and low == ANY:
        return x
    return w.op("band_part", x, w.const(low), w.const(high))


def _is_lower(w: Writer, x: Tensor) -> bool:
    return w.ancestor(x, "cholesky") is not None


def _on_diagonal(w: Writer, x: Tensor, size: int) -> Tensor:
    """Return the diagonal of a tensor that is broadcast to matrices of `size` rows and columns."""
    rows, columns = x.dims[-2:]
    if rows > 1 and columns > 1:
        return diagonal(w, x)
    line = w.reshape(x, (*x.dims[:-2], max(rows, columns)))
    return w.broadcast(line, (*x.dims[:-2], size))


def diagonal(w: Writer, x: Tensor, k: int = 0) -> Tensor:
    """Return a diagonal of matrices."""
    rows, columns = x.dims[-2:]
    shape = (*x.dims[:-2], min(rows + min(k, 0), columns - max(k, 0)))
    return w.op("matrix_diag_part", x, w.const(k), w.const(0, x.dtype), shape=shape)


def diagonal_matrix(w: Writer, d: Tensor) -> Tensor:
    """Return square matrices with a diagonal and zeros elsewhere."""
    sizes = (w.const(0), w.const(-1), w.const(-1))
    return w.op("matrix_diag", d, *sizes, w.const(0, d.dtype))


def identity(w: Writer, mask: Tensor, dtype: str) -> Tensor | None:
    """Return the identity matrix if `mask` is true on the main diagonal only, else None."""
    if len(mask.dims) < 2 or mask.dims[-1] != mask.dims[-2] or band_of(w, mask) != (0, 0):
        return None
    return diagonal_matrix(w, w.full(mask.dims[:-1], 1, dtype))
