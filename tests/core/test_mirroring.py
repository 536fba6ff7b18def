"""What a symmetric tensor gives in two ways is computed once, and nothing else is merged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from core.rewritten import OPS, random, t
from tf_exla.frontends.numpy import NUMPY, evaluate, trace
from tf_exla.frontends.numpy.trace import flat
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.rewrite.mirroring import mirror

N = 70


def kernel(xp: Any, x: Any, y: Any) -> Any:
    rows, columns = (xp.sum(xp.square(z), 1, keepdims=True) for z in (x, y))
    return xp.exp(2.0 * xp.matmul(x, y, transpose_b=True) - rows - xp.matrix_transpose(columns))


def both(xp: Any, k: Any, v: Any) -> list[Any]:
    return [
        xp.matmul(k, v) + xp.matmul(k, v, transpose_a=True),
        xp.sum(k, 0),
        xp.sum(k, 1, keepdims=True),
        xp.matmul(t(k), xp.exp(v)),
    ]


def symmetric(xp: Any, x: Any, y: Any, v: Any) -> Any:
    return both(xp, kernel(xp, x, x), v)


def asymmetric(xp: Any, x: Any, y: Any, v: Any) -> Any:
    return both(xp, kernel(xp, x, y), v)


def antisymmetric(xp: Any, x: Any, y: Any, v: Any) -> Any:
    return both(xp, v[:, :1] - t(v[:, :1]), v)


def in_a_while(xp: Any, x: Any, y: Any, v: Any) -> Any:
    def body(xp: Any, i: Any, a: Any) -> Any:
        k = kernel(xp, a, a)
        return i + 1, xp.matmul(k, a) - xp.matmul(k, a, transpose_a=True) + 0.9 * a

    return xp.while_loop(lambda xp, i, a: i < 3, body, (0, x))


# The products and sums over rows or columns that are left, and the transposes.
CASES = [
    (symmetric, {"matmul": 3, "permute_dims": 1, "sum": 2}),  # K, K v, K exp(v); |x|^2, of K
    (asymmetric, {"matmul": 4, "permute_dims": 2, "sum": 4}),
    (antisymmetric, {"matmul": 3, "permute_dims": 2, "sum": 2}),
    (in_a_while, {}),
]


@pytest.mark.parametrize(("fn", "left"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_mirror(fn: Any, left: dict[str, int]) -> None:
    args = random(N, 3), random(N, 3, seed=1), random(N, 2)
    before = clean(trace(fn, *args), OPS)
    found = mirror(before, OPS)
    graph = clean(found.graph, OPS)
    check_graph(graph, before)
    assert mirror(graph, OPS).graph is graph
    if left:
        assert len(found.applications) == sum(node.op in left for node in before.nodes) - sum(
            left.values()
        )
    counts = Counter(node.op for node in graph.nodes)
    assert {op: counts[op] for op in left} == left
    for got, want in zip(evaluate(graph, *args), flat(fn(NUMPY, *args)), strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.abs(want).max())
