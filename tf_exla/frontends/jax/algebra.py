"""Products, solves and diagonals of matrices, in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.ir.graph import Node

X = Any  # an array
Kernel = Callable[..., X]


def _accuracy(node: Node) -> dict[str, Any]:
    """Return the precision of a product, as captured, and the dtype of its result."""
    return {
        "precision": node.attrs.get("precision"),
        "preferred_element_type": jnp.dtype(node.output.dtype),
    }


def matmul(left: str, right: str) -> Kernel:
    def kernel(node: Node, a: X, b: X) -> X:
        a = jnp.swapaxes(a, -1, -2) if node.attrs.get(left) else a
        b = jnp.swapaxes(b, -1, -2) if node.attrs.get(right) else b
        if left.startswith("adj"):  # an adjoint is also conjugated
            a = jnp.conj(a) if node.attrs.get(left) else a
            b = jnp.conj(b) if node.attrs.get(right) else b
        return jnp.matmul(a, b, **_accuracy(node))

    return kernel


def einsum(node: Node, *operands: X) -> X:
    equation = node.attrs["equation"]
    text = equation.decode() if isinstance(equation, bytes) else str(equation)
    return jnp.einsum(text, *operands, **_accuracy(node))


def solve_triangular(node: Node, a: X, b: X) -> X:
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (a, b))
    adjoint = bool(node.attrs.get("adjoint"))
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=bool(node.attrs.get("lower", True)),
        transpose_a=adjoint,
        conjugate_a=adjoint and jnp.iscomplexobj(a),
    )


def band_part(node: Node, x: X, lower: X, upper: X) -> X:
    rows = lax.broadcasted_iota(np.int32, x.shape[-2:], 0)
    columns = lax.broadcasted_iota(np.int32, x.shape[-2:], 1)
    kept = jnp.ones((), bool)
    if int(lower) >= 0:
        kept = kept & (rows - columns <= int(lower))
    if int(upper) >= 0:
        kept = kept & (columns - rows <= int(upper))
    return jnp.where(kept, x, jnp.zeros((), x.dtype))


def diagonal(node: Node, x: X, k: X, *padding: X) -> X:
    return jnp.diagonal(x, _offset(node, k), -2, -1)


def matrix_diag(node: Node, d: X, k: X, rows: X, columns: X, padding: X) -> X:
    at, n = _offset(node, k), d.shape[-1]
    height = n + max(-at, 0) if rows < 0 else int(rows)
    width = n + max(at, 0) if columns < 0 else int(columns)
    # XLA fuses a mask into its uses, but folds a scatter into a constant into another constant.
    before = max(-at, 0)
    around = [(0, 0)] * (d.ndim - 1) + [(before, height - n - before)]
    rows_of, columns_of = (lax.broadcasted_iota(np.int32, (height, width), k) for k in (0, 1))
    column = jnp.pad(jnp.asarray(d), around)[..., None]
    return jnp.where(columns_of - rows_of == at, column, jnp.asarray(padding, column.dtype))


def set_diagonal(node: Node, x: X, d: X, k: X) -> X:
    at, rows = _offset(node, k), np.arange(d.shape[-1])
    return jnp.asarray(x).at[..., rows + max(-at, 0), rows + max(at, 0)].set(d)


def _offset(node: Node, k: X) -> int:
    if np.size(k) != 1:
        raise NotImplementedError(f"several diagonals: {node}")
    return int(np.ravel(k)[0])
