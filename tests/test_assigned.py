"""Variables assigned between uses of one large tensor: later reads wait for the assignment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

N = 1_201
Program = Callable[[tf.Variable, tf.Tensor], tf.Tensor]


def kernel(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.square(x[:, None] - x[None]))


def whole(v: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """An [N, N] variable is averaged with the kernel, and their sum is multiplied."""
    k = kernel(x)
    v.assign(0.5 * v + 0.5 * k)
    return tf.linalg.matvec(v + k, x)


def product(v: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """A kernel is multiplied with the result of its first product, through a variable."""
    k = kernel(x)
    v.assign(tf.linalg.matvec(k, x))
    return tf.linalg.matvec(k, v.read_value()) + tf.reduce_sum(k, 1)


def twice(v: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    """Two assignments, each needed by the next pass over the kernel."""
    k = kernel(x)
    v.assign_add(tf.reduce_max(k * x, 1))
    soft = tf.exp(k - v[:, None])
    v.assign(tf.reduce_sum(soft, 1))
    return tf.linalg.matvec(soft, 1.0 / v)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("rewrites", [None, False])
@pytest.mark.parametrize("limit", ["4MB", "14MB", "36MB", "60MB", "1TB"])
@pytest.mark.parametrize("program", [whole, product, twice])
def test_numbers(program: Program, limit: str, rewrites: bool | None) -> None:
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal(N))
    start = rng.standard_normal((N, N) if program is whole else N)
    found = []
    for optimized in (False, True):
        v = tf.Variable(start)

        def function(x: tf.Tensor, v: tf.Variable = v) -> tf.Tensor:
            return program(v, x)

        try:
            run = tf_exla.optimize(function, limit, rewrites=rewrites) if optimized else function
            found.append([run(x).numpy(), run(x).numpy(), v.numpy()])
        except tf_exla.MemoryLimitError:
            assert program is whole  # the variable and its new value must exist whole
            assert limit in ("4MB", "14MB")
            return
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
