"""Gradients of maxima and minima: the extreme elements are found again, including ties."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from programs import l2_naive, normal, square_distance, with_gradients
from programs_check import difference

import tf_exla


def points(count: int, seed: int, dtype: str = "float64") -> tf.Tensor:
    """Return points, some of which occur two or three times."""
    x = normal(count, 3, seed=seed, dtype=dtype)
    return tf.concat([x, x[: count // 7], x[: count // 9]], 0)


def chamfer(distance: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        d = distance(x, y)
        return tf.reduce_sum(tf.reduce_min(d, 1)) + tf.reduce_sum(tf.reduce_min(d, 0))

    return function


def hausdorff(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    d = tf.sqrt(tf.maximum(square_distance(x, y), 1e-12))
    return tf.maximum(
        tf.reduce_max(tf.reduce_min(d, 1)), tf.reduce_max(tf.reduce_min(d, 0))
    ) + tf.reduce_max(d)


def largest_share(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Keep elements of at least the third largest of their row, as sparse attention does."""
    scores = tf.matmul(y, x, transpose_b=True)
    least = tf.math.top_k(scores, 3).values[:, -1:]
    return tf.reduce_sum(tf.where(scores >= least, tf.square(scores), 0))


def pooled(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A network of points, and the maximum over them: zeros of relu are ties."""
    x = tf.concat([x, 0.9 * x, 1.1 * x, x, 0.8 * x], 0)
    w = tf.matmul(y[:50], y[50:100], transpose_b=True)
    h = tf.nn.relu(tf.matmul(x, y[:50], transpose_b=True))
    return tf.reduce_sum(tf.square(tf.reduce_max(tf.nn.relu(tf.matmul(h, w) - 9.0), 0)))


FUNCTIONS = {
    "chamfer": chamfer(square_distance),
    "chamfer of differences": chamfer(l2_naive),
    "hausdorff": hausdorff,
    "largest share": largest_share,
    "pooled": pooled,
}


@pytest.mark.each_value
@pytest.mark.parametrize("jit", [None, True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ties(name: str, dtype: str, jit: bool | None) -> None:
    """Several limits give several chunk sizes, and remainders, which use different kernels."""
    stock = tf.function(with_gradients(FUNCTIONS[name]), autograph=False)
    x, y = points(821, 0, dtype), points(793, 1, dtype)
    expected = stock(x, y)
    before = tf_exla.explain(stock, x, y, limit=10**13).projected_peak_before
    chunks = set()
    for factor in (1.5, 2, 3) if name == "pooled" else (2, 3, 5):
        optimized = tf_exla.optimize(stock, int(before / factor), jit_compile=jit)
        report = optimized.report(x, y)
        assert report.projected_peak <= before / factor
        assert report.loops
        chunks.update(loop.chunk for loop in report.loops)
        assert difference(expected, optimized(x, y), 1e-9 if dtype == "float64" else 1e-4) <= 1
    assert len(chunks) > 1


def test_repeated_products_are_the_same() -> None:
    """The comparison relies on it: a kernel gives the same bits for the same shapes."""
    rng = np.random.default_rng(0)
    for rows, columns, inner in itertools.product((1, 7, 224), (1, 297, 1400), (3, 64)):
        for dtype in ("float32", "float64"):
            a, b = (tf.constant(rng.standard_normal((n, inner)), dtype) for n in (rows, columns))
            made = {square_distance(a, b).numpy().tobytes() for _ in range(5)}
            assert len(made) == 1


def far(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(square_distance(x, y) + 1.0)


def rounds(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A loop that searches for the largest element of each row, and the least of each column."""
    d = far(x, y)
    largest, least = tf.reduce_max(d, 1, keepdims=True), tf.reduce_min(d, 0, keepdims=True)

    def body(i: tf.Tensor, v: tf.Tensor) -> Any:
        hits = tf.cast(tf.equal(d, largest), d.dtype) + tf.cast(d <= least, d.dtype)
        return i + 1, v + tf.matmul(hits, tf.ones([y.shape[0], 1], d.dtype))

    start = tf.zeros([x.shape[0], 1], x.dtype)
    return tf.while_loop(lambda i, v: i < 3, body, (0, start))[1]


def branches(first: bool) -> Callable[..., Any]:
    """The gradient of a branch is a branch, which recomputes the same numbers."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        d = far(x, y)
        return tf.cond(
            tf.reduce_sum(x) < (np.inf if first else -np.inf),
            lambda: tf.reduce_sum(tf.reduce_max(d, 1)),
            lambda: tf.reduce_sum(tf.reduce_min(d, 0)),
        )

    return with_gradients(function)


def repeated(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    d = far(x, y)

    def body(i: tf.Tensor, v: tf.Tensor) -> Any:
        return i + 1, v + tf.reduce_max(d * tf.cast(i + 1, d.dtype), 1)

    start = tf.zeros([x.shape[0]], x.dtype)
    loop = tf.while_loop(lambda i, v: i < 3, body, (0, start), maximum_iterations=3)
    return tf.reduce_sum(loop[1])


COPIED = {
    "rounds": rounds,
    "first branch": branches(first=True),
    "second branch": branches(first=False),
    "repeated": with_gradients(repeated),
}


@pytest.mark.each_value
@pytest.mark.parametrize("jit", [None, True])
@pytest.mark.parametrize("name", COPIED)
def test_copies_are_not_compared(name: str, jit: bool | None) -> None:
    """A limit that only two copies of the distances would hold is refused."""
    stock = tf.function(COPIED[name], autograph=False)
    x, y = points(821, 0), points(793, 1)
    expected = stock(x, y)
    before = tf_exla.explain(stock, x, y, limit=10**13).projected_peak_before
    refused = 0
    for factor in (1, 1.5, 5):
        optimized = tf_exla.optimize(stock, int(before / factor), jit_compile=jit)
        try:
            found = optimized(x, y)
        except tf_exla.MemoryLimitError:
            refused += 1
        else:
            assert difference(expected, found, 1e-9) <= 1
    assert refused < 3
