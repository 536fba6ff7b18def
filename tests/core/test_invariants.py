"""Loops that compute large tensors which they read whole: memory, numbers, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.traverse import walk
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan

OPTIONS = Options(chunk_bytes=1 << 16, body_bytes=3 << 15, cached=False, cores=2)
OPS = InPlaceOps()
N, K, M = 401, 307, 353
MATRIX = 8 * K * M  # the smallest of the large matrices


def matrix(xp: Any, x: Any, y: Any) -> Any:
    return xp.exp(xp.matmul(x, y, transpose_b=True))


def product(xp: Any, x: Any, y: Any, z: Any) -> Any:
    return xp.sum(xp.tanh(matrix(xp, x, y) @ matrix(xp, y, z)))


def rows_of_a_product(xp: Any, x: Any, y: Any, z: Any) -> Any:
    return xp.sum(xp.tanh(matrix(xp, x, y) @ matrix(xp, y, z)), axis=1)


def two_products(xp: Any, x: Any, y: Any, z: Any) -> Any:
    return xp.sum(matrix(xp, x, y) @ matrix(xp, y, x) @ matrix(xp, x, z))


def softmax(xp: Any, x: Any, y: Any, z: Any) -> Any:
    weights = matrix(xp, y, z)
    weights = weights / xp.sum(weights, axis=1)[:, None]
    return xp.sum(xp.tanh(matrix(xp, x, y) @ weights))


def gradient(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """The value of `product`, and the sums that its gradient is made of."""
    a, b = matrix(xp, x, y), matrix(xp, y, z)
    value = xp.tanh(a @ b)
    slope = 1.0 - value * value
    left = xp.matmul(slope, b, transpose_b=True) * a
    right = xp.matmul(a, slope, transpose_a=True) * b
    return [xp.sum(value), left @ y, right @ z]


def read_elsewhere(xp: Any, x: Any, y: Any, z: Any) -> Any:
    a, b = matrix(xp, x, y), matrix(xp, y, z)
    return [xp.sum(xp.tanh(a @ b)), xp.sum(b, axis=1), xp.sum(a, axis=0)]


def marked(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """A product with the largest number of each row, which is looked for in the row."""
    b = matrix(xp, y, z)
    best = xp.max(b, axis=1)[:, None]
    return [xp.sum(xp.tanh(matrix(xp, x, y) @ xp.where(xp.equal(b, best), b, 0.0 * b))), best]


def squared_gram(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """A product of a matrix with itself: both of its operands are one tensor."""
    features = matrix(xp, x, y)
    gram = xp.matmul(features, features, transpose_b=True)
    return xp.sum(gram * gram)


def gram_of_features(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """Its operand needs three large tensors at once, so a loop of its own computes it first."""
    features = xp.concat([matrix(xp, x, y), matrix(xp, x, z)], axis=1)
    gram = xp.matmul(features, features, transpose_b=True)
    return xp.sum(gram * gram)


def gram(xp: Any, x: Any, y: Any, z: Any) -> Any:
    features = matrix(xp, x, y)
    return xp.matmul(features, features, transpose_b=True)


def gram_of_a_product(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """A loop that reads one matrix whole computes a smaller one that the next loop reads whole."""
    features = xp.tanh(matrix(xp, y, x) @ matrix(xp, x, z))
    product = xp.matmul(features, features, transpose_b=True)
    return xp.sum(product * product)


PROGRAMS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        product,
        rows_of_a_product,
        two_products,
        softmax,
        gradient,
        read_elsewhere,
        marked,
        squared_gram,
        gram_of_features,
        gram,
        gram_of_a_product,
    )
}


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [0.3 * rng.normal(size=(rows, 3)) for rows in (N, K, M)]


def beside(graph: Graph) -> int:
    """Return what the executor keeps, in bytes, and more."""
    return Projector(OPS).overhead(graph) + (1 << 17)


def smallest(graph: Graph) -> int:
    with pytest.raises(MemoryLimitError) as info:
        optimize_graph(graph, OPS, limit=1, options=OPTIONS)
    return info.value.smallest_limit


def planned(graph: Graph, limit: int) -> Plan:
    return optimize_graph(graph, OPS, limit=limit, options=OPTIONS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_matrix_is_held(name: str) -> None:
    inputs = arrays()
    graph = trace(PROGRAMS[name], *inputs)
    least = smallest(graph)
    results = sum(tensor.nbytes for tensor in graph.outputs)
    assert least < beside(graph) + results + MATRIX // 2
    expected = evaluate(graph, *inputs)
    for limit in (least, *(beside(graph) + results + k * MATRIX for k in (1, 3))):
        plan = planned(graph, limit)
        assert plan.projected_peak <= limit
        for got, want in zip(evaluate(plan.graph, *inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_large_argument_stays_where_it_is() -> None:
    def function(xp: Any, x: Any, y: Any, whole: Any) -> Any:
        return xp.sum(xp.tanh(matrix(xp, x, y) @ whole))

    x, y, z = arrays()
    inputs = x, y, np.exp(y @ z.T)
    graph = trace(function, *inputs)
    assert smallest(graph) < beside(graph) + inputs[2].nbytes + MATRIX // 2


def test_a_larger_limit_is_faster() -> None:
    """The operand is computed again in each iteration, so fewer iterations are made."""
    graph = trace(product, *arrays())
    limits = smallest(graph), beside(graph) + MATRIX // 2, beside(graph) + 2 * MATRIX
    seconds = [planned(graph, limit).seconds for limit in limits]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] < seconds[0] / 3


def test_an_operand_that_fits_is_computed_once() -> None:
    graph = trace(product, *arrays())
    plan = planned(graph, beside(graph) + 4 * MATRIX)
    assert not any(
        isinstance(inner, Loop)
        for node in plan.graph.nodes
        if isinstance(node, Loop)
        for inner in walk(node.body)
    )
