"""Products of which one half is known or masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import Outcome, check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy import evaluate

TRIANGLES = only("triangles", "cleanup")
M, N = 250, 500
Program = Callable[..., Any]


def tril(x: Any) -> Any:
    return np.tril(x) if isinstance(x, np.ndarray) else x.xp.tril(x)


def triu(x: Any) -> Any:
    return np.triu(x) if isinstance(x, np.ndarray) else x.xp.triu(x)


HALVES: tuple[Program, ...] = (
    lambda xp, a, b: a @ t(a),
    lambda xp, a, b: tril(a @ t(b)),
    lambda xp, a, b: triu(a @ t(b)),
    lambda xp, a, b: triu(b @ t(a)),
)


def names(outcome: Outcome) -> list[str]:
    return [one.rewrite for one in outcome.result.applications if one.family == "triangles"]


def flops(outcome: Outcome) -> tuple[int, int]:
    """Of the products, before and after: rows x columns x summed."""

    def count(graph: Any) -> int:
        return sum(
            node.output.size * node.inputs[0].size // max(node.output.dims[-2], 1)
            for node in graph.nodes
            if "matmul" in node.op
        )

    return count(outcome.before), count(outcome.result.graph)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, a, b: a @ t(a),
        lambda xp, a, b: xp.matmul(a, a, transpose_b=True) + 1.0,
        lambda xp, a, b: tril(a @ t(b)),
        lambda xp, a, b: tril(-(2.0 * xp.matmul(a, b, transpose_b=True))),
        lambda xp, a, b: triu(a @ t(b)),
        lambda xp, a, b: tril(t(a @ t(b))),
        lambda xp, a, b: triu(t(-(a @ t(b)))),
    ],
    ids=["gram", "gram, read", "lower", "scaled", "upper", "transposed", "transposed, upper"],
)
def test_a_half_is_computed(fn: Program, dtype: str) -> None:
    args = random(M, N, dtype=dtype), random(M, N, dtype=dtype)
    outcome = check_numbers(fn, *args, families=TRIANGLES)
    assert names(outcome) in (["gram"], ["masked"])
    before, after = flops(outcome)
    assert after < 0.8 * before


@pytest.mark.parametrize("shape", [(192, 384), (331, 662), (1000, 2001), (1130, 2300)])
def test_odd_sizes(shape: tuple[int, int]) -> None:
    args = random(*shape), random(*shape)
    for fn in HALVES:
        outcome = check_numbers(fn, *args, families=TRIANGLES)
        assert names(outcome)


def test_the_tall_matrix() -> None:
    """aᵀ a: blocks of columns."""
    args = (random(N, M),)
    outcome = check_numbers(
        lambda xp, a: xp.matmul(a, a, transpose_a=True), *args, families=TRIANGLES
    )
    assert names(outcome) == ["gram"]


def test_batches() -> None:
    args = random(3, M, N), random(3, M, N)
    for fn in HALVES:
        outcome = check_numbers(fn, *args, families=TRIANGLES)
        assert len(names(outcome)) == 1


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_place(bad: float) -> None:
    a = random(M, N)
    a[7, 3] = bad
    args = a, random(M, N, seed=1)
    for fn in HALVES:
        outcome = rewritten(fn, *args, families=TRIANGLES)
        assert names(outcome)
        (want,), (made,) = (evaluate(g, *args) for g in (outcome.before, outcome.result.graph))
        np.testing.assert_array_equal(np.isnan(want), np.isnan(made))
        np.testing.assert_allclose(made, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda xp, a, b: a @ t(a), [(100, 500), (1, 1)]),  # few rows
        (lambda xp, a, b: a @ t(a), [(400, 500), (1, 1)]),  # a short sum
        (lambda xp, a, b: a @ t(b), [(M, N), (M, N)]),  # not masked
        (lambda xp, a, b: xp.band_part(a @ t(b), -1, 3), [(M, N), (M, N)]),
        (lambda xp, a, b: xp.band_part(a @ t(b), 0, 0), [(M, N), (M, N)]),
        (lambda xp, a, b: tril(a @ t(b)), [(M, N), (M + 50, N)]),  # not square
        (lambda xp, a, b: tril(a @ t(b)), [(2, M, N), (1, M, N)]),  # a broadcast batch
    ],
)
def test_refusals(fn: Program, shapes: list[tuple[int, ...]]) -> None:
    outcome = check_numbers(fn, *(random(*shape) for shape in shapes), families=TRIANGLES)
    assert not names(outcome)


def test_a_product_that_is_read_elsewhere_stays() -> None:
    def fn(xp: Any, a: Any, b: Any) -> Any:
        product = a @ t(b)
        return tril(product), xp.max(product)

    outcome = check_numbers(fn, random(M, N), random(M, N), families=TRIANGLES)
    assert not names(outcome)
    assert "read elsewhere" in outcome.reasons
