"""No dense matrix for what is read from its diagonal, or made of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from rewriting.rewritten import check_numbers, only, random, rewritten

DIAGONALS = only("diagonals", "chains", "cleanup")
N = 40


def t(x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matrix_transpose(x)


@pytest.mark.parametrize(
    ("fn", "rewrite"),
    [
        (lambda a, b, d: tf.linalg.diag_part(a @ b), "diagonal-of-product"),
        (lambda a, b, d: tf.linalg.diag_part(tf.matmul(a, a, transpose_b=True)), "diagonal-of-"),
        (lambda a, b, d: tf.linalg.diag_part(tf.matmul(b, b, transpose_a=True)), "diagonal-of-"),
        (lambda a, b, d: tf.linalg.diag_part(t(3.0 * (a @ b))), "diagonal-of-product"),
        (lambda a, b, d: tf.linalg.diag_part(a @ (b @ (a @ b))), "diagonal-of-product"),
        (lambda a, b, d: tf.linalg.trace(a @ b), "diagonal-of-product"),
        (lambda a, b, d: tf.linalg.trace(tf.matmul(a, a, transpose_b=True)), "diagonal-of-"),
        (lambda a, b, d: tf.linalg.diag_part(tf.linalg.diag(d)), "diagonal-of-diagonal"),
        (lambda a, b, d: tf.reduce_sum(tf.linalg.diag(d), 0), "sum-of-diagonal"),
        (lambda a, b, d: tf.reduce_sum(tf.linalg.diag(d), 1, keepdims=True), "sum-of-diagonal"),
        (lambda a, b, d: tf.reduce_sum(2.0 * tf.linalg.diag(d)), "sum-of-diagonal"),
        (lambda a, b, d: tf.linalg.diag(d) @ a, "matrix-chain"),
        (lambda a, b, d: b @ tf.linalg.diag(d), "matrix-chain"),
        (lambda a, b, d: (2.0 * tf.eye(N, dtype=a.dtype)) @ a, "matrix-chain"),
    ],
)
def test_nothing_dense_is_left(fn: Callable[..., Any], rewrite: str) -> None:
    outcome = check_numbers(fn, random(N, 3), random(3, N), random(N), families=DIAGONALS)
    assert any(name.startswith(rewrite) for name in outcome.names)
    assert outcome.largest < N * N
    assert "matrix_diag" not in outcome.ops


@pytest.mark.parametrize(
    "fn",
    [
        lambda k, d: k + tf.linalg.diag(d),
        lambda k, d: tf.linalg.diag(d) + k,
        lambda k, d: k - tf.linalg.diag(d),
        lambda k, d: k + 0.1 * tf.linalg.diag(d),
        lambda k, d: k + d[0] * tf.eye(N, dtype=k.dtype),
        lambda k, d: k - tf.eye(N, dtype=k.dtype),
    ],
)
def test_a_sum_with_a_diagonal(fn: Callable[..., Any]) -> None:
    k = random(N, N)
    k = tf.tensor_scatter_nd_update(k, [[1, 2], [3, 3]], tf.constant([float("nan")] * 2, k.dtype))
    outcome = check_numbers(fn, k, random(N), families=DIAGONALS)
    assert "plus-diagonal" in outcome.names
    assert outcome.ops[-1] == "matrix_set_diag"
    assert "matrix_diag" not in outcome.ops


def test_batches() -> None:
    a, b, d = random(2, N, 3), random(2, 3, N), random(2, N)
    for fn in (
        lambda a, b, d: tf.linalg.diag_part(a @ b),
        lambda a, b, d: tf.linalg.diag(d) @ a,
        lambda a, b, d: tf.reduce_sum(tf.linalg.diag(d), [1, 2]),
    ):
        outcome = check_numbers(fn, a, b, d, families=DIAGONALS)
        assert outcome.largest < N * N


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda a, b: tf.linalg.diag_part(a @ b), [(9, 3), (3, 7)], "only square ones"),
        (lambda k, d: k + tf.linalg.diag(d), [(1, 9), (9,)], "is broadcast"),
        (lambda k, d: k + tf.linalg.diag(d), [(2, 9, 9), (9,)], "is broadcast"),
        (lambda k, d: k + tf.linalg.diag(d), [(9, 9), (2, 9)], "is broadcast"),
        (lambda a, b: tf.linalg.diag_part(a @ b), [(5, 50), (50, 5)], "would make a tensor|saves"),
    ],
)
def test_refuses(fn: Callable[..., Any], shapes: list[Any], reason: str) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=only("diagonals"))
    if "|" not in reason:
        assert not outcome.result.applications
        assert reason in outcome.reasons


@pytest.mark.parametrize(
    "fn",
    [
        lambda k, d: tf.linalg.diag_part(k @ k, k=1),
        lambda k, d: tf.linalg.diag_part(k @ k, k=(-1, 1)),
        lambda k, d: k[:8, :8] @ tf.linalg.diag(d[:7], k=1),
        lambda k, d: tf.linalg.diag(d, padding_value=2.0) @ k,
        lambda k, d: tf.reduce_sum(tf.linalg.diag(d, num_cols=12, num_rows=9), 1),
        lambda k, d: tf.reduce_max(tf.linalg.diag(d), 1),
        lambda k, d: tf.linalg.diag(d) * k,
        lambda k, d: d + tf.linalg.diag(d),
        lambda k, d: tf.linalg.diag(d) - k,
        lambda k, d: tf.linalg.diag_part(tf.matmul(k, k, adjoint_a=True) * k),
        lambda k, d: tf.linalg.diag(d) @ tf.linalg.diag(d),
        lambda k, d: tf.linalg.diag(d) @ tf.linalg.diag(d) @ k,
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any]) -> None:
    check_numbers(fn, random(9, 9), random(9), families=DIAGONALS)


def test_complex_adjoint_stays() -> None:
    a = tf.complex(random(9, 3), random(9, 3, seed=1))
    outcome = rewritten(lambda a: tf.linalg.diag_part(tf.matmul(a, a, adjoint_b=True)), a)
    assert not outcome.result.applications
