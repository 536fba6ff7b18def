"""TensorFlow as the namespace of functions of arrays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

X = Any


def _top_k(x: X, k: int) -> list[X]:
    return list(tf.math.top_k(x, k))


def _pad(x: X, widths: X) -> X:
    return tf.pad(x, widths)


class Namespace:
    """TensorFlow's ops by the names of the array API standard."""

    linalg = SimpleNamespace(
        cholesky=tf.linalg.cholesky,
        diagonal=lambda x, offset=0: tf.linalg.diag_part(x, k=offset),
        matrix_transpose=tf.linalg.matrix_transpose,
        solve_triangular=tf.linalg.triangular_solve,
        trace=tf.linalg.trace,
        vector_norm=tf.math.reduce_euclidean_norm,
    )
    astype = staticmethod(tf.cast)
    concat = staticmethod(tf.concat)
    diag = staticmethod(tf.linalg.diag)
    matrix_transpose = staticmethod(tf.linalg.matrix_transpose)
    pad = staticmethod(_pad)
    permute_dims = staticmethod(tf.transpose)
    take = staticmethod(tf.gather)
    top_k = staticmethod(_top_k)

    def __getattr__(self, name: str) -> Any:
        for place, prefix in ((tf, "reduce_"), (tf, ""), (tf.math, ""), (tf.nn, "")):
            if hasattr(place, prefix + name):
                return getattr(place, prefix + name)
        raise AttributeError(name)

    def matmul(self, x: X, y: X, transpose_a: bool = False, transpose_b: bool = False) -> X:
        if y.shape.rank == 1:
            return tf.linalg.matvec(x, y, transpose_a=transpose_a)
        return tf.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)

    def eye(self, n: int, dtype: str = "float64") -> X:
        return tf.eye(n, dtype=dtype)

    def flip(self, x: X, axis: int) -> X:
        return tf.reverse(x, [axis])

    def tril(self, x: X) -> X:
        return tf.linalg.band_part(x, -1, 0)

    def triu(self, x: X) -> X:
        return tf.linalg.band_part(x, 0, -1)

    def while_loop(self, cond: X, body: X, init: X) -> X:
        return tf.while_loop(
            lambda *values: cond(self, *values), lambda *values: body(self, *values), init
        )


TENSORFLOW = Namespace()
