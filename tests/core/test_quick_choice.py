"""A first form that is faster than the whole program is taken without a search for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.model.options import Options
from tf_exla.pipeline import forms
from tf_exla.pipeline.optimize import optimize_graph

OPTIONS = Options(chunk_bytes=1 << 22, body_bytes=3 << 21, cores=2)
N = 2503


def sum_of_two(xp: Any, x: Any, v: Any) -> Any:
    squares = xp.sum(x * x, axis=1)
    matrix = xp.matmul(x, x, transpose_b=True) - squares
    return (xp.exp(0.1 * matrix) + xp.tanh(matrix)) @ v


def test_nothing_is_computed_again_if_the_split_program_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("rematerialization was tried")

    monkeypatch.setattr(forms, "rematerialize", never)
    rng = np.random.default_rng(0)
    arguments = rng.normal(size=(N, 3)), rng.normal(size=(N, 1))
    graph = trace(sum_of_two, *arguments)
    plan = optimize_graph(graph, InPlaceOps(), limit=120_000_000, options=OPTIONS)
    assert plan.graph.has_loops
    assert plan.projected_peak <= 120_000_000 < plan.projected_peak_before
    expected = sum_of_two_in_numpy(*arguments)
    np.testing.assert_allclose(evaluate(plan.graph, *arguments)[0], expected, rtol=1e-9)


def sum_of_two_in_numpy(x: Any, v: Any) -> Any:
    matrix = x @ x.T - (x * x).sum(1)
    return (np.exp(0.1 * matrix) + np.tanh(matrix)) @ v
