"""JAX as the namespace of functions of arrays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

X = Any


def _swapped(x: X) -> X:
    return jnp.swapaxes(x, -1, -2)


def _solve_triangular(a: X, b: X, lower: bool = True, adjoint: bool = False) -> X:
    return jax.scipy.linalg.solve_triangular(a, b, lower=lower, trans=2 if adjoint else 0)


class Namespace:
    """JAX's functions by the names of the array API standard."""

    linalg = SimpleNamespace(
        cholesky=lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
        diagonal=lambda x, offset=0: jnp.diagonal(x, offset, -2, -1),
        matrix_transpose=_swapped,
        solve_triangular=_solve_triangular,
        trace=lambda x: jnp.trace(x, axis1=-2, axis2=-1),
        vector_norm=jnp.linalg.norm,
    )
    add_n = staticmethod(sum)
    concat = staticmethod(jnp.concatenate)
    diag = staticmethod(jnp.vectorize(jnp.diag, signature="(n)->(n,n)"))
    permute_dims = staticmethod(jnp.transpose)
    softmax = staticmethod(jax.nn.softmax)
    top_k = staticmethod(lax.top_k)

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    def squared_difference(self, x: X, y: X) -> X:
        return jnp.square(x - y)

    def matmul(self, x: X, y: X, transpose_a: bool = False, transpose_b: bool = False) -> X:
        return jnp.matmul(_swapped(x) if transpose_a else x, _swapped(y) if transpose_b else y)

    def take(self, x: X, indices: X, axis: int = 0) -> X:
        return jnp.take(x, jnp.asarray(indices), axis)

    def while_loop(self, cond: X, body: X, init: X) -> X:
        return lax.while_loop(
            lambda values: cond(self, *values), lambda values: body(self, *values), init
        )


JAX = Namespace()
