"""A program that fits the limit is split where that is faster, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.toy import Builder, ToyOps, run
from tf_exla.ir.graph import Graph, Loop
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan

AMPLE = 10**12
OPTIONS = Options(cores=2, chunk_bytes=1 << 22, body_bytes=3 << 21)


def kernel_product(n: int, others: int = 0) -> Graph:
    """(k + k²) v, k = exp(x yᵀ): large matrices between small ones, and other small ones."""
    b = Builder()
    x, y, v = b.input(n, 3), b.input(n, 3), b.input(n, 1)
    for _ in range(others):
        v = b.op("exp", v)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", y)))
    return b.graph(b.op("matmul", b.op("add", k, b.op("multiply", k, k)), v))


def dense(n: int) -> Graph:
    """(a b) c: what it takes is products, whose time chunks do not change."""
    b = Builder()
    a, c = b.input(n, n), b.input(n, n)
    return b.graph(b.op("matmul", b.op("matmul", a, c), c))


def optimized(graph: Graph, options: Options = OPTIONS) -> Plan:
    return optimize_graph(graph, ToyOps(), limit=AMPLE, options=options)


def loops(plan: Plan) -> list[Loop]:
    return [node for node in plan.graph.nodes if isinstance(node, Loop)]


def test_chunks_in_cache_are_faster() -> None:
    graph = kernel_product(4001)
    plan = optimized(graph)
    assert plan.for_speed
    assert loops(plan)
    assert plan.working_set < plan.working_set_before / 20
    whole = optimized(graph, replace(OPTIONS, rewrites={"in-cache": False})).graph
    assert graph_seconds(ToyOps(), plan.graph) < 0.76 * graph_seconds(ToyOps(), whole)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(tensor.dims) for tensor in graph.inputs]
    (made,), (want,) = run(plan.graph, *values), run(graph, *values)
    np.testing.assert_allclose(made, want, rtol=1e-10)


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (kernel_product(4001), replace(OPTIONS, rewrites={"in-cache": False})),
        (kernel_product(4001), replace(OPTIONS, cached=False)),
        (kernel_product(4001), replace(OPTIONS, chunk_bytes=1 << 27)),  # the matrix fits the cache
        (kernel_product(1100, others=300), OPTIONS),  # a search takes more than calls save
        (dense(1500), OPTIONS),
    ],
)
def test_what_gains_nothing_stays_whole(graph: Graph, options: Options) -> None:
    plan = optimized(graph, options)
    assert not plan.for_speed
    assert not loops(plan)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.9, 1.1])
def test_more_room_costs_no_time(share: float) -> None:
    graph = kernel_product(4001)
    needed = optimized(graph).projected_peak_before
    times = []
    for limit in (0.05, share):
        plan = optimize_graph(graph, ToyOps(), limit=int(limit * needed), options=OPTIONS)
        times.append(graph_seconds(ToyOps(), plan.graph, promises=False))
    assert times[1] <= 1.05 * times[0]
