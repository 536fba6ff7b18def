"""NumPy as the namespace `xp` of functions that `trace.py` traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tf_exla.frontends.numpy.kernels import KERNELS, top_k
from tf_exla.ir.graph import Node

X = Any  # an array


def _swapped(x: X) -> X:
    return np.swapaxes(x, -1, -2)


def _solve_triangular(a: X, b: X, lower: bool = True, adjoint: bool = False) -> X:
    how = {"lower": lower, "adjoint": adjoint}
    return KERNELS["solve_triangular"](Node("solve_triangular", (), (), how), a, b)


def _kept(function: Callable[..., X]) -> Callable[..., X]:
    """Return a reduction that keeps the dtype of the array; NumPy's would widen integers."""
    return lambda x, axis=None, keepdims=False: function(x, axis, x.dtype, keepdims=keepdims)


class Namespace:
    """NumPy's functions, and functions of a traced `xp` that NumPy lacks."""

    linalg = SimpleNamespace(
        cholesky=np.linalg.cholesky,
        diagonal=lambda x, offset=0: np.diagonal(x, offset, -2, -1),
        matrix_transpose=_swapped,
        solve_triangular=_solve_triangular,
        trace=lambda x: np.trace(x, axis1=-2, axis2=-1),
        vector_norm=lambda x, axis=None, keepdims=False: np.sqrt(
            np.sum(x * x, axis, keepdims=keepdims)
        ),
    )
    matrix_transpose = staticmethod(_swapped)
    concat = staticmethod(np.concatenate)
    permute_dims = staticmethod(np.transpose)
    prod = staticmethod(_kept(np.prod))
    sum = staticmethod(_kept(np.sum))
    top_k = staticmethod(top_k)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if hasattr(np, name):
            found: Callable[..., Any] = getattr(np, name)
            return found
        if name not in KERNELS:
            raise AttributeError(name)
        return lambda *operands: KERNELS[name](Node(name, (), ()), *operands)

    def matmul(self, x: X, y: X, transpose_a: bool = False, transpose_b: bool = False) -> X:
        return np.matmul(_swapped(x) if transpose_a else x, _swapped(y) if transpose_b else y)

    def diag(self, d: X) -> X:
        return d[..., None] * np.eye(d.shape[-1], dtype=d.dtype)

    def astype(self, x: X, dtype: str) -> X:
        return x.astype(dtype)

    def add_n(self, arrays: Sequence[X]) -> X:
        return sum(arrays[1:], arrays[0])

    def while_loop(
        self, cond: Callable[..., Any], body: Callable[..., Any], init: Sequence[Any]
    ) -> list[Any]:
        variables = list(init)
        while cond(self, *variables):
            variables = list(body(self, *variables))
        return variables


NUMPY = Namespace()
