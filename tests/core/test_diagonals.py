"""No dense matrix for what is read from its diagonal, or made of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import check_numbers, only, random, t
from tf_exla.frontends.numpy import evaluate

DIAGONALS = only("diagonals", "chains", "cleanup")
N = 40


@pytest.mark.parametrize(
    ("fn", "rewrite"),
    [
        (lambda xp, a, b, d: xp.linalg.diagonal(a @ b), "diagonal-of-product"),
        (lambda xp, a, b, d: xp.linalg.diagonal(xp.matmul(a, a, transpose_b=True)), "diagonal-of-"),
        (lambda xp, a, b, d: xp.linalg.diagonal(xp.matmul(b, b, transpose_a=True)), "diagonal-of-"),
        (lambda xp, a, b, d: xp.linalg.diagonal(t(3.0 * (a @ b))), "diagonal-of-product"),
        (lambda xp, a, b, d: xp.linalg.diagonal(a @ (b @ (a @ b))), "diagonal-of-product"),
        (lambda xp, a, b, d: xp.linalg.trace(a @ b), "diagonal-of-product"),
        (lambda xp, a, b, d: xp.linalg.trace(xp.matmul(a, a, transpose_b=True)), "diagonal-of-"),
        (lambda xp, a, b, d: xp.linalg.diagonal(a @ b - d), "diagonal-of-pointwise"),
        (lambda xp, a, b, d: xp.linalg.trace(d[:, None] * (a @ b) + d), "diagonal-of-pointwise"),
        (lambda xp, a, b, d: xp.linalg.diagonal(2.0 * d - d[:, None]), "diagonal-of-pointwise"),
        (lambda xp, a, b, d: xp.linalg.diagonal(xp.diag(d)), "diagonal-of-diagonal"),
        (lambda xp, a, b, d: xp.sum(xp.diag(d), 0), "sum-of-diagonal"),
        (lambda xp, a, b, d: xp.sum(xp.diag(d), 1, keepdims=True), "sum-of-diagonal"),
        (lambda xp, a, b, d: xp.sum(2.0 * xp.diag(d)), "sum-of-diagonal"),
        (lambda xp, a, b, d: xp.diag(d) @ a, "matrix-chain"),
        (lambda xp, a, b, d: b @ xp.diag(d), "matrix-chain"),
        (lambda xp, a, b, d: (2.0 * xp.eye(N, dtype=a.dtype)) @ a, "matrix-chain"),
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
        lambda xp, k, d: k + xp.diag(d),
        lambda xp, k, d: xp.diag(d) + k,
        lambda xp, k, d: k - xp.diag(d),
        lambda xp, k, d: k + 0.1 * xp.diag(d),
        lambda xp, k, d: k + d[0] * xp.eye(N, dtype=k.dtype),
        lambda xp, k, d: k - xp.eye(N, dtype=k.dtype),
    ],
)
def test_a_sum_with_a_diagonal(fn: Callable[..., Any]) -> None:
    k = random(N, N)
    k[1, 2] = k[3, 3] = np.nan
    outcome = check_numbers(fn, k, random(N), families=DIAGONALS)
    assert "plus-diagonal" in outcome.names
    assert outcome.ops[-1] == "matrix_set_diag"
    assert "matrix_diag" not in outcome.ops


@pytest.mark.parametrize("shapes", [((1, 9), (1,)), ((3, 1, 9), (3, 1)), ((9, 1), (1,))])
def test_a_diagonal_of_one_element_is_broadcast(shapes: list[tuple[int, ...]]) -> None:
    def fn(xp: Any, a: Any, d: Any) -> Any:
        return a + xp.diag(d), xp.linalg.diagonal(a)

    args = [random(*shape) for shape in shapes]
    check_numbers(fn, *args, families=DIAGONALS)
    outcome = check_numbers(fn, *args)
    assert "plus-diagonal" not in outcome.names


def centring(xp: Any, a: Any) -> Any:
    return xp.eye(N, dtype=a.dtype) - 1.0 / N


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, a, b, d: centring(xp, a) @ a,
        lambda xp, a, b, d: b @ centring(xp, a),
        lambda xp, a, b, d: xp.matmul(a, centring(xp, a), transpose_a=True),
        lambda xp, a, b, d: xp.matmul(t(b), t(centring(xp, a)), transpose_a=True),
        lambda xp, a, b, d: (2.0 - 0.5 * xp.eye(N, dtype=a.dtype)) @ a,
        lambda xp, a, b, d: (3.0 * (d[0] * xp.eye(N, dtype=a.dtype) + 2.0 * d[0])) @ a,
    ],
)
def test_a_product_with_one_number_off_the_diagonal(fn: Callable[..., Any]) -> None:
    families = only("diagonals", "cleanup")
    outcome = check_numbers(fn, random(N, 3), random(3, N), random(N), families=families)
    assert "product-with-uniform" in outcome.names
    assert outcome.largest < N * N
    assert not {"matmul", "matrix_diag"} & set(outcome.ops)


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, p, s: p @ (1.0 - xp.eye(N, dtype=p.dtype)),
        lambda xp, p, s: (xp.full((N, N), 1.0, dtype="float64") - xp.eye(N, dtype=p.dtype)) @ t(p),
        lambda xp, p, s: p @ ((xp.eye(N, dtype=p.dtype) - 1.0) / 3.0),
        lambda xp, p, s: p @ (s * xp.eye(N, dtype=p.dtype) - s),
        # Numbers that only the run knows.
        lambda xp, p, s: p @ (s - xp.diag(xp.linalg.diagonal(p) * 0.7)),
        lambda xp, p, s: (1.0 - xp.diag(s / (xp.zeros_like(p[0]) + 0.7))) @ p,
        lambda xp, p, s: p @ ((s / 0.7) * xp.eye(N, dtype=p.dtype) - 1.0),
        lambda xp, p, s: xp.linalg.diagonal(p @ p @ (1.0 - xp.eye(N, dtype=p.dtype))),
    ],
)
def test_the_sum_of_others_is_no_difference(fn: Callable[..., Any]) -> None:
    """Beside a large element, the sum of the others would have no correct digit."""
    p = np.full((N, N), 1e-17) + np.eye(N)
    s = np.float64(0.7)
    outcome = check_numbers(fn, p, s, families=only("diagonals", "cleanup"))
    (found,) = evaluate(outcome.result.graph, p, s)
    (expected,) = evaluate(outcome.before, p, s)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_product_with_a_diagonal_that_was_added(sign: float) -> None:
    def fn(xp: Any, a: Any, d: Any) -> Any:
        equal = xp.full((N, N), 0.3, dtype="float64")
        eye = xp.eye(N, dtype="float64") * 0.8
        added = equal + eye if sign > 0 else equal - eye
        return xp.tanh(added), added @ a

    outcome = check_numbers(fn, random(N, 3), random(N), families=only("diagonals", "cleanup"))
    assert {"plus-diagonal", "product-with-uniform"} <= set(outcome.names)
    assert "matmul" not in outcome.ops


def test_a_trace_of_centred_kernels() -> None:
    """Of three products of matrices, none is left."""

    def fn(xp: Any, a: Any, b: Any) -> Any:
        h = centring(xp, a)
        return xp.linalg.trace(a @ h @ b @ h)

    families = only("diagonals", "chains", "cleanup")
    outcome = check_numbers(fn, random(N, N), random(N, N), families=families)
    assert outcome.names.count("diagonal-with-uniform") == 1
    assert not {"matmul", "matrix_diag"} & set(outcome.ops)


def test_batches() -> None:
    a, b, d = random(2, N, 3), random(2, 3, N), random(2, N)
    for fn in (
        lambda xp, a, b, d: xp.linalg.diagonal(a @ b),
        lambda xp, a, b, d: xp.diag(d) @ a,
        lambda xp, a, b, d: xp.sum(xp.diag(d), (1, 2)),
        lambda xp, a, b, d: centring(xp, a) @ a,
        lambda xp, a, b, d: b @ centring(xp, a),
        lambda xp, a, b, d: xp.linalg.diagonal(a @ b - d[:, None] * d[0]),
    ):
        outcome = check_numbers(fn, a, b, d, families=DIAGONALS)
        assert outcome.largest < N * N


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda xp, a, b: xp.linalg.diagonal(a @ b), [(9, 3), (3, 7)], "only square ones"),
        (lambda xp, k, d: k + xp.diag(d), [(1, 9), (9,)], "is broadcast"),
        (lambda xp, k, d: k + xp.diag(d), [(2, 9, 9), (9,)], "is broadcast"),
        (lambda xp, k, d: k + xp.diag(d), [(9, 9), (2, 9)], "is broadcast"),
        (
            lambda xp, a, b: xp.linalg.diagonal(a @ b),
            [(5, 50), (50, 5)],
            "would make a tensor|saves",
        ),
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
        lambda xp, k, d: xp.linalg.diagonal(k @ k, 1),
        lambda xp, k, d: xp.max(xp.diag(d), 1),
        lambda xp, k, d: xp.diag(d) * k,
        lambda xp, k, d: d + xp.diag(d),
        lambda xp, k, d: xp.diag(d) - k,
        lambda xp, k, d: xp.linalg.diagonal(xp.matmul(k, k, transpose_a=True) * k),
        lambda xp, k, d: xp.diag(d) @ xp.diag(d),
        lambda xp, k, d: xp.diag(d) @ xp.diag(d) @ k,
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any]) -> None:
    check_numbers(fn, random(9, 9), random(9), families=DIAGONALS)
