"""Small axes: what is unrolled, what is not and why, numbers, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import OPS, check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.rewrite import chosen, rewrite_graph

SMALL = only("small-axes", "cleanup")
N, M, D = 401, 301, 5


def gaps(x: Any, y: Any) -> Any:
    return x[..., :, None, :] - y[..., None, :, :]


def columns(x: Any, y: Any) -> Any:
    return t(x)[:, :, None] - t(y)[:, None]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "L1": lambda xp, x, y: xp.sum(xp.abs(gaps(x, y)), -1),
    "L1 of columns": lambda xp, x, y: xp.sum(xp.abs(columns(x, y)), 0),
    "L1, kept": lambda xp, x, y: xp.sum(xp.abs(gaps(x, y)), -1, keepdims=True),
    "L2": lambda xp, x, y: xp.sum(xp.squared_difference(x[:, None], y[None]), -1),
    "weighted": lambda xp, x, y: xp.sum(y[0] * xp.square(gaps(x, y) / xp.exp(x[0])), -1),
    "mean": lambda xp, x, y: xp.mean(xp.abs(gaps(x, y)), -1),
    "norm": lambda xp, x, y: xp.squeeze(
        xp.sqrt(xp.sum((g := gaps(x, y)) * g, -1, keepdims=True)), -1),
    "Chebyshev": lambda xp, x, y: xp.max(xp.abs(gaps(x, y)), -1),
    "least": lambda xp, x, y: xp.min(xp.abs(gaps(x, y)), 2),
    "product": lambda xp, x, y: xp.prod(xp.cos(gaps(x, y)), -1),
    "all": lambda xp, x, y: xp.all(x[:, None] > y[None] - 1, -1),
    "any": lambda xp, x, y: xp.any(x[:, None] > y[None] + 1, -1),
    "two sums": lambda xp, x, y: (
        xp.sum(xp.abs(gap := gaps(x, y)), -1), xp.max(gap, -1), gap[:2, :3]),
    "equal sums": lambda xp, x, y: (
        xp.sum(e := xp.abs(gaps(x, y)), -1), xp.sum(e, 2), xp.sum(e, (2,))),
    "all axes": lambda xp, x, y: xp.sum(xp.sin(gaps(x, y))),
    "sum and rows": lambda xp, x, y: (xp.sum(e := xp.abs(gaps(x, y)), -1), xp.sum(e, 0)),
    "Canberra": lambda xp, x, y: xp.sum(
        xp.abs(gaps(x, y)) / (xp.abs(x[:, None]) + xp.abs(y[None])), -1),
    "where": lambda xp, x, y: xp.sum(xp.where(gaps(x, y) > 0, x[:, None], y[None]), -1),
    "waves": lambda xp, x, y: xp.sum(
        xp.cos(xp.reshape(x, (-1,))[:, None] * y[0]) * y[1], 1),
}  # fmt: skip
LARGER = {"two sums": "sliced before its sum"}  # the seed is read by what cannot be unrolled


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name: str, dtype: str) -> None:
    scale = 20 if name == "waves" else 1
    args = random(scale * N, D, dtype=dtype), random(M, D, dtype=dtype)
    outcome = check_numbers(PROGRAMS[name], *args, families=SMALL)
    if name in LARGER:
        assert "unroll" not in outcome.names
        return
    assert "unroll" in outcome.names, outcome.reasons
    assert outcome.largest <= max(scale * N * D, N * M)


def test_batches_and_shared_points() -> None:
    x, y = random(3, N, D), random(3, M, D)
    for program in (PROGRAMS["L1"], PROGRAMS["Chebyshev"]):
        assert "unroll" in check_numbers(program, x, y, families=SMALL).names
        outcome = check_numbers(lambda xp, x, p=program: p(xp, x, x), random(N, D), families=SMALL)
        assert "unroll" in outcome.names


def test_integers() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-99, 99, (n, D)).astype("int32") for n in (4 * N, M))
    for name in ("L1", "Chebyshev", "least", "product"):
        program = PROGRAMS[name]
        if name == "product":
            program = lambda xp, x, y: xp.prod(gaps(x, y), -1)  # noqa: E731
        assert "unroll" in check_numbers(program, x, y, families=SMALL).names


def test_what_is_no_number_stays_where_it_is() -> None:
    x, y = random(N, D), random(M, D)
    x[3, 2], y[5, 1], y[7] = np.nan, np.inf, -np.inf
    x[4, 1] = np.inf
    for name in ("L1", "Chebyshev", "least", "L2"):
        outcome = check_numbers(PROGRAMS[name], x, y, families=SMALL)
        assert "unroll" in outcome.names


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda xp, x, y: xp.sum(xp.abs(x) * y[0], -1), [(99_999, 5), (5, 5)], ""),
        (lambda xp, x, y: xp.sum(gaps(x, y) ** 2, -1), [(9, 5), (8, 5)], "saves no time"),
        (lambda xp, x, y: xp.sum(gaps(x, y) ** 2, -1), [(4, 5), (50_000, 5)], "not small"),
        (lambda xp, x, y: xp.sum(xp.softmax(gaps(x, y)), -1), [(N, 5), (M, 5)], ""),
        (lambda xp, x, y: (g := gaps(x, y), xp.sum(g, -1)), [(N, 5), (M, 5)], "whole"),
        (
            lambda xp, x, y: xp.sum(xp.matmul(xp.abs(gaps(x, y)), y, transpose_b=True), -1),
            [(N, 5), (M, 5)],
            "matmul is done",
        ),
        (
            lambda xp, x, y: xp.sum(xp.sin(xp.cos(xp.abs(xp.tanh(xp.exp(gaps(x, y)))))), -1),
            [(N, 64), (M, 64)],
            "",
        ),
        (
            lambda xp, x, y: (xp.sum(
                e := xp.sin(xp.cos(xp.abs(xp.tanh(xp.exp(xp.sin(xp.cos(xp.abs(gaps(x, y)))))))))
                * xp.exp(gaps(x, y)), -1), xp.max(e, -1)),
            [(N, 64), (M, 64)],
            "nodes",
        ),
    ],
)  # fmt: skip
def test_refuses(fn: Callable[..., Any], shapes: list[Any], reason: str) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=SMALL)
    if reason:
        assert reason in outcome.reasons
        assert "unroll" not in outcome.names


def test_heads_of_attention_stay() -> None:
    q = random(2, 4, 300, 8)

    def attention(xp: Any, q: Any) -> Any:
        return xp.softmax(xp.matmul(q, q, transpose_b=True)) @ q

    assert "unroll" not in rewritten(attention, q).names


def test_the_naive_distance_goes_first() -> None:
    outcome = check_numbers(PROGRAMS["L2"], random(N, D), random(M, D), families=True)
    assert "naive-distance" in outcome.names
    assert "unroll" not in outcome.names


def test_switched_off() -> None:
    x, y = random(N, D), random(M, D)
    assert "unroll" in rewritten(PROGRAMS["L1"], x, y).names
    assert "unroll" not in rewritten(PROGRAMS["L1"], x, y, families={"small-axes": False}).names


def test_slices_are_made_once_and_contiguous() -> None:
    outcome = rewritten(PROGRAMS["L1"], random(3000, D), random(9000, D), families=SMALL)
    nodes = outcome.result.graph.nodes
    slices = [node for node in nodes if node.op == "slice"]
    assert len(slices) == 2 * D
    assert sum(node.op == "permute_dims" for node in nodes) == 2


def test_equal_results_of_a_graph_that_is_not_clean() -> None:
    x, y = random(N, D), random(M, D)
    graph = trace(lambda xp, x, y: (xp.sum(e := xp.abs(gaps(x, y)), -1), xp.sum(e, -1)), x, y)
    made = rewrite_graph(graph, OPS, chosen(SMALL))
    assert [one.rewrite for one in made.applications] == ["unroll"], made.refusals
    check_graph(made.graph, graph)
    for found, expected in zip(evaluate(made.graph, x, y), evaluate(graph, x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
