"""Solves and diagonals of matrices, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_exla.frontends.numpy.shared import offset
from tf_exla.ir.graph import Node

X = Any  # an array


def solve_triangular(node: Node, a: X, b: X) -> X:
    a = np.tril(a) if node.attrs.get("lower", True) else np.triu(a)
    a = np.conj(np.swapaxes(a, -1, -2)) if node.attrs.get("adjoint") else a
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide = (np.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (a, b))
    return np.linalg.solve(*wide)


def _offsets(x: X) -> X:
    return np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]  # column - row


def band_part(node: Node, x: X, lower: X, upper: X) -> X:
    kept = np.ones(x.shape[-2:], bool)
    if lower >= 0:
        kept &= -_offsets(x) <= lower
    if upper >= 0:
        kept &= _offsets(x) <= upper
    return np.where(kept, x, np.zeros((), x.dtype))


def matrix_diag(node: Node, d: X, k: X, rows: X, columns: X, padding: X) -> X:
    at, n = offset(node, k), d.shape[-1]
    height = n + max(-at, 0) if rows < 0 else int(rows)
    width = n + max(at, 0) if columns < 0 else int(columns)
    made, rows = np.full((*d.shape[:-1], height, width), padding, d.dtype), np.arange(n)
    made[..., rows + max(-at, 0), rows + max(at, 0)] = d
    return made
