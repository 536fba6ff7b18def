"""Solves of few right-hand sides; products of sums that share what the graph has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import Outcome, check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy import NUMPY, evaluate

SOLVES = only("solves", "cleanup")
M, N = 20, 300
Program = Callable[..., Any]


def lower(*shape: int, dtype: str = "float64") -> Any:
    """Return well-conditioned triangles."""
    return np.tril(0.1 * random(*shape, dtype=dtype)) + 2 * np.eye(shape[-1], dtype=dtype)


def solve(left: Any, right: Any, **how: bool) -> Any:
    xp = NUMPY if isinstance(left, np.ndarray) else left.xp
    return xp.linalg.solve_triangular(left, right, **how)


def arguments(dtype: str = "float64") -> tuple[Any, ...]:
    return (
        lower(M, M, dtype=dtype),
        random(M, M, dtype=dtype),
        random(M, N, dtype=dtype),
        random(M, 1, dtype=dtype),
        random(N, 1, dtype=dtype),
    )


def widths(outcome: Outcome, op: str = "solve_triangular") -> list[int]:
    """Return the columns of all results of `op`."""
    return [n.output.dims[-1] for n in outcome.result.graph.nodes if n.op == op]


@pytest.mark.parametrize(
    "right",
    [
        lambda xp, s, a, b, e: s @ a,
        lambda xp, s, a, b, e: s @ a + b @ t(e),
        lambda xp, s, a, b, e: s @ a - b @ t(e),
        lambda xp, s, a, b, e: t(t(a) @ s) - 2.0 * (b @ t(e)),
        lambda xp, s, a, b, e: xp.add_n([s @ a, b @ t(e), t(s) @ a]),
        lambda xp, s, a, b, e: (s @ a) * e[:, 0] + (b @ t(e)) / 3.0,
        lambda xp, s, a, b, e: b * (s @ a),
        lambda xp, s, a, b, e: 0.5 * ((s @ (s @ a)) * e[:, 0] - b @ t(e)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("low", "adjoint"), [(True, False), (True, True), (False, True)])
def test_few_right_hand_sides_are_left(
    right: Program, dtype: str, low: bool, adjoint: bool
) -> None:
    def fn(xp: Any, k: Any, *rest: Any) -> Any:
        return solve(k if low else t(k), right(xp, *rest), lower=low, adjoint=adjoint)

    outcome = check_numbers(fn, *arguments(dtype), families=SOLVES)
    assert "solve-of-product" in outcome.names
    assert max(widths(outcome)) <= M
    assert widths(outcome).count(M) == 1


def test_batches() -> None:
    args = (lower(3, M, M), random(3, M, M), random(3, M, N))
    outcome = check_numbers(lambda xp, k, s, a: solve(k, s @ a), *args, families=SOLVES)
    assert widths(outcome) == [M]


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda xp, k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, M)], "few columns"),
        (lambda xp, k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, M - 5)], "few columns"),
        (lambda xp, k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, M + 1)], "few columns"),
        (lambda xp, k, s, a: solve(k, s @ a), [(M, M), (M, N - 1), (N - 1, N)], "few columns"),
        (lambda xp, k, s, a: solve(k, s @ a + a), [(M, M), (M, M), (M, N)], "few columns"),
        (lambda xp, k, s, a: solve(k, s @ a), [(3, M, M), (M, M), (M, N)], "is broadcast"),
        (lambda xp, k, s, a: solve(k, s @ a), [(3, M, M), (M, M), (3, M, N)], "is broadcast"),
        (lambda xp, k, s, a: solve(k, s @ a), [(M, M), (M, M), (3, M, N)], "is broadcast"),
        (lambda xp, k, s, a: solve(k, s @ a), [(0, 0), (0, 0), (0, N)], ""),
        (lambda xp, k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, 0)], ""),
        (lambda xp, k, s, a: solve(k, s @ a), [(1, 1), (1, 1), (1, 1)], ""),
    ],
)
def test_refusals(fn: Program, shapes: list[tuple[int, ...]], reason: str) -> None:
    first, *rest = shapes
    args = (lower(*first), *(random(*shape, seed=i) for i, shape in enumerate(rest)))
    outcome = check_numbers(fn, *args, families=SOLVES)
    assert not outcome.result.applications
    assert reason in outcome.reasons


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16"])
def test_other_dtypes_stay(dtype: str) -> None:
    args = (arg.astype(dtype) for arg in arguments()[:3])
    assert not rewritten(lambda xp, k, s, a: solve(k, s @ a), *args).result.applications


def test_a_product_that_is_read_elsewhere_stays() -> None:
    def fn(xp: Any, k: Any, s: Any, a: Any) -> Any:
        right = s @ a
        return right, solve(k, right)

    outcome = check_numbers(fn, *arguments()[:3], families=SOLVES)
    assert widths(outcome) == [N]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(bad: float) -> None:
    def fn(xp: Any, k: Any, s: Any, a: Any) -> Any:
        return solve(k, s @ a)

    for position in range(1, 3):
        args = list(arguments()[:3])
        args[position][2, 3] = bad
        outcome = rewritten(fn, *args, families=SOLVES)
        assert outcome.names == ["solve-of-product"]
        (got,), want = evaluate(outcome.result.graph, *args), fn(NUMPY, *args)
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


# Products of sums.


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, s, a, b, e: (s @ a + b @ t(e)) @ t(a),
        lambda xp, s, a, b, e: xp.matmul(s @ a - 2.0 * b @ t(e), a, transpose_b=True),
        lambda xp, s, a, b, e: a @ t(s @ a + b @ t(e)),
        lambda xp, s, a, b, e: a @ (t(a) @ s - e @ t(b)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_shared_products_are_used(fn: Program, dtype: str) -> None:
    def both(xp: Any, s: Any, a: Any, b: Any, e: Any) -> Any:
        return a @ t(a), a @ e, fn(xp, s, a, b, e)

    outcome = check_numbers(both, *arguments(dtype)[1:], families=SOLVES)
    assert outcome.names.count("product-of-sum") == 1
    reads = [n for n in outcome.result.graph.nodes if n.op == "matmul" and _long(n)]
    assert len(reads) == 2
    assert outcome.largest <= M * N


def _long(node: Any) -> bool:
    return any(N in tensor.dims for tensor in (*node.inputs, *node.outputs))


def test_a_sum_that_is_read_elsewhere_is_multiplied_term_by_term() -> None:
    def fn(xp: Any, s: Any, a: Any, b: Any, e: Any) -> Any:
        total = s @ a + b @ t(e)
        return a @ t(a), total, total @ t(a)

    outcome = check_numbers(fn, *arguments()[1:], families=SOLVES)
    assert "product-of-sum" in outcome.names
    assert sum(_long(n) for n in outcome.result.graph.nodes if n.op == "matmul") <= 4


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda xp, s, a, b: (s @ a + b) @ t(a), [(M, M), (M, N), (M, N)]),
        (lambda xp, s, a, b: (s @ a + b @ a) @ b, [(N, M), (M, N), (N, M)]),
        (lambda xp, s, a, b: (s @ a + b @ a) @ a, [(3, M, M), (M, M), (M, M)]),
        (lambda xp, s, a, b: (s @ a + b @ a) @ t(a), [(3, M, M), (3, M, N), (3, M, M)]),
        (lambda xp, s, a, b: (s @ a + b @ a) @ t(a), [(M, M), (M, 0), (M, M)]),
        (lambda xp, s, a, b: (s @ a + b @ a) @ t(a), [(1, 1), (1, 1), (1, 1)]),
    ],
)
def test_near_misses_keep_their_numbers(fn: Program, shapes: list[tuple[int, ...]]) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_numbers(fn, *args, families=SOLVES)
