"""Products, solves and diagonals of matrices, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tf_exla.ir.graph import Node

X = Any  # an array
Kernel = Callable[..., X]


def matmul(left: str, right: str) -> Kernel:
    def kernel(node: Node, a: X, b: X) -> X:
        a = np.swapaxes(a, -1, -2) if node.attrs.get(left) else a
        b = np.swapaxes(b, -1, -2) if node.attrs.get(right) else b
        if left.startswith("adj"):  # an adjoint is also conjugated
            a = np.conj(a) if node.attrs.get(left) else a
            b = np.conj(b) if node.attrs.get(right) else b
        return np.matmul(a, b)

    return kernel


def einsum(node: Node, *operands: X) -> X:
    equation = node.attrs["equation"]
    text = equation.decode() if isinstance(equation, bytes) else str(equation)
    return np.einsum(text, *operands)


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


def diagonal(node: Node, x: X, k: X, *padding: X) -> X:
    return np.diagonal(x, _offset(node, k), -2, -1)


def matrix_diag(node: Node, d: X, k: X, rows: X, columns: X, padding: X) -> X:
    at, n = _offset(node, k), d.shape[-1]
    height = n + max(-at, 0) if rows < 0 else int(rows)
    width = n + max(at, 0) if columns < 0 else int(columns)
    shape = (*d.shape[:-1], height, width)
    return set_diagonal(node, np.full(shape, padding, d.dtype), d, k)


def set_diagonal(node: Node, x: X, d: X, k: X) -> X:
    made, at = x.copy(), _offset(node, k)
    rows = np.arange(d.shape[-1])
    made[..., rows + max(-at, 0), rows + max(at, 0)] = d
    return made


def _offset(node: Node, k: X) -> int:
    if np.size(k) != 1:
        raise NotImplementedError(f"several diagonals: {node}")
    return int(np.ravel(k)[0])
