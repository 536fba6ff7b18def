"""Accuracy of products, solves and diagonals of matrices, in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.numpy.shared import offset
from tf_exla.ir.graph import Node

X = Any  # an array


def accuracy(node: Node) -> dict[str, Any]:
    """Return the precision of a product, as captured, and the dtype of its result."""
    return {
        "precision": node.attrs.get("precision"),
        "preferred_element_type": jnp.dtype(node.output.dtype),
    }


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


def matrix_diag(node: Node, d: X, k: X, rows: X, columns: X, padding: X) -> X:
    at, n = offset(node, k), d.shape[-1]
    height = n + max(-at, 0) if rows < 0 else int(rows)
    width = n + max(at, 0) if columns < 0 else int(columns)
    # XLA fuses a mask into its uses, but folds a scatter into a constant into another constant.
    before = max(-at, 0)
    around = [(0, 0)] * (d.ndim - 1) + [(before, height - n - before)]
    rows_of, columns_of = (lax.broadcasted_iota(np.int32, (height, width), k) for k in (0, 1))
    column = jnp.pad(jnp.asarray(d), around)[..., None]
    return jnp.where(columns_of - rows_of == at, column, jnp.asarray(padding, column.dtype))
