"""Products of matrices with two axes in one: computed apart, with the same numbers; what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.traverse import walk
from tf_exla.moves.unmerging import unmerge
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.vocabulary.op_set import VocabularyOps

A, N, D = 3, 50, 4
LEAST = 8 * N


def layer(xp: Any, x: Any, w: Any) -> Any:
    """One layer for all vectors of [a, n, d]."""
    a, n, d = x.shape
    return xp.reshape(xp.reshape(x, (a * n, d)) @ w, (a, n, w.shape[1]))


def outer(xp: Any, x: Any, w: Any) -> Any:
    """The product of a long vector with itself, by outputs."""
    v = xp.reshape(x, (-1, 1))
    return xp.sum(xp.reshape(v @ xp.matrix_transpose(v), (A, -1, A * N * D)), axis=0)


APART: dict[str, Callable[..., Any]] = {
    "a layer": layer,
    "a layer transposed": lambda xp, x, w: layer(xp, x, xp.matrix_transpose(w)),
    "two layers": lambda xp, x, w: layer(xp, xp.tanh(layer(xp, x, w)), w),
    "rows that are separated later": outer,
    "a gradient": lambda xp, x, w: xp.matmul(
        *(xp.reshape(one, (-1, D)) for one in (x, layer(xp, x, w))), transpose_a=True
    ),
}
STAY: dict[str, Callable[..., Any]] = {
    "the outer axis is longer": lambda xp, x, w: layer(xp, xp.permute_dims(x, (1, 0, 2)), w),
    "columns": lambda xp, x, w: xp.matrix_transpose(w) @ xp.reshape(x, (D, -1)),
    "a batch": lambda xp, x, w: x @ w,
    "small": lambda xp, x, w: layer(xp, x[:, :4], w),
}


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((A, N, D)), rng.standard_normal((D, D))]


@pytest.mark.parametrize("name", APART)
def test_axes_apart(name: str) -> None:
    arrays = inputs()
    graph = trace(APART[name], *arrays)
    made = unmerge(graph, VocabularyOps(), LEAST)
    check_graph(made, graph)
    assert "batch_matmul" in {node.op for node in made.nodes}
    assert "matmul" not in {node.op for node in made.nodes}
    for found, expected in zip(evaluate(made, *arrays), evaluate(graph, *arrays), strict=True):
        np.testing.assert_allclose(found, expected, 1e-13, 1e-13)


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    graph = trace(STAY[name], *inputs())
    assert unmerge(graph, VocabularyOps(), LEAST) is graph


@pytest.mark.parametrize("flips", [(False, True), (True, False)])
def test_complex_numbers_are_not_conjugated(flips: tuple[bool, bool]) -> None:
    """A transpose among batches of products would be adjoint."""
    x, w = (one + 1j * one[..., ::-1] for one in inputs())

    def fn(xp: Any, x: Any, w: Any) -> Any:
        rows = xp.reshape(x, (A * N, D))
        return xp.matmul(rows, rows if flips[0] else w, transpose_a=flips[0], transpose_b=flips[1])

    graph = trace(fn, x, w)
    made = unmerge(graph, VocabularyOps(), 2 * LEAST)
    (found,), (expected,) = evaluate(made, x, w), evaluate(graph, x, w)
    np.testing.assert_allclose(found, expected, 1e-13, 1e-13)


def test_the_inner_axis_is_split() -> None:
    """The columns of a Jacobian are mixed, so they cannot be computed one after another."""

    def fn(xp: Any, x: Any, w: Any) -> Any:
        made = layer(xp, xp.exp(x)[None] * xp.reshape(w[:A], (A, 1, -1)), w)
        mixed = xp.reshape(w[:A, :A] @ xp.reshape(made, (A, -1)), (A, x.shape[0], -1))
        return xp.sum(layer(xp, xp.tanh(mixed), xp.matrix_transpose(w)) ** 2)

    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((9973, 1)), rng.standard_normal((20, 20))]
    graph = trace(fn, *arrays)
    plan = optimize_graph(graph, InPlaceOps(), limit=1_300_000)
    assert plan.projection.working_set < 1_300_000
    assert "batch_matmul" in {node.op for node in walk(plan.graph)}
    np.testing.assert_allclose(evaluate(plan.graph, *arrays), evaluate(graph, *arrays), 1e-10)
