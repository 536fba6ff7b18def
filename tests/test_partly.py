"""Large tensors that are kept in part between two passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla.passes.splitting import keeping

M, N = 150, 20_011
Program = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Any]


def solved(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> tf.Tensor:  # noqa: E741
    """Return [M, N]: dear to make again."""
    return tf.linalg.triangular_solve(l, tf.sin(tf.matmul(z, x, transpose_b=True)))


def sums(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
    a = solved(x, z, l)
    mean = tf.reduce_mean(a, 1, keepdims=True)
    return tf.matmul(a - mean, tf.tanh(a * mean), transpose_b=True)


def extremes(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
    a = solved(x, z, l)
    total = tf.reduce_sum(a)
    scaled = a / (1.0 + total * total)
    return tf.reduce_max(scaled, 1), tf.reduce_min(scaled, 1), tf.reduce_all(scaled < 3.0)


def columns(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
    """What is not reduced is put together from both parts."""
    a = solved(x, z, l)
    return tf.reduce_sum(tf.square(a - tf.reduce_mean(a, 1, keepdims=True)), 0)


def gradients(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
    with tf.GradientTape() as tape:
        tape.watch([x, z, l])
        a = solved(x, z, l)
        gram = tf.matmul(a, a, transpose_b=True) + 1e3 * tf.eye(M, dtype=a.dtype)
        value = tf.linalg.slogdet(gram)[1]
    return value, tape.gradient(value, [x, z, l])


def rows(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
    """The long axis first: parts of the sources are views."""
    a = tf.transpose(solved(x, z, l))
    return tf.linalg.matvec(a - tf.reduce_mean(a, 0), l[0]), tf.reduce_sum(a, 0)


ARGS = (
    tf.constant(np.random.default_rng(0).standard_normal((N, 3))),
    tf.constant(np.random.default_rng(1).standard_normal((M, 3))),
    tf.constant(np.tril(0.1 * np.random.default_rng(2).standard_normal((M, M))) + 3 * np.eye(M)),
)


@pytest.mark.parametrize("fn", [sums, extremes, columns, gradients, rows])
@pytest.mark.parametrize("jit", [None, False])
def test_numbers_and_limit(fn: Program, jit: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "GAIN", 2.0)  # whether or not it is worth it
    limit = 20_000_000
    optimized = tf_exla.optimize(fn, limit, jit_compile=jit)
    report = optimized.report(*ARGS)
    assert sum("part0" in loop.name for loop in report.loops) >= 2
    assert report.projected_peak <= limit
    values = zip(tf.nest.flatten(optimized(*ARGS)), tf.nest.flatten(fn(*ARGS)), strict=True)
    for made, want in values:
        if want.dtype == tf.bool:
            assert bool(made) == bool(want)
            continue
        scale = float(tf.reduce_max(tf.abs(want)))
        np.testing.assert_allclose(made, want, rtol=1e-8, atol=1e-10 * scale)


def test_it_comes_where_it_is_estimated_to_be_faster() -> None:
    """A dear tensor of which two thirds fit."""

    def fn(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
        a = tf.linalg.triangular_solve(l, tf.matmul(z, x, transpose_b=True))
        mean = tf.reduce_mean(a, 1, keepdims=True)
        return tf.reduce_sum(tf.square(a - mean))

    specs = [tf.TensorSpec(shape, tf.float64) for shape in ((30_080, 3), (1500, 3), (1500, 1500))]
    report = tf_exla.explain(fn, *specs, limit="300MB")
    assert any("part0" in one.name for one in report.loops)
