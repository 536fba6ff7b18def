"""A program that fits the limit is split where that is faster, and only there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.control_flow import body_of, is_while
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.rates import CPU
from tf_exla.model import cost
from tf_exla.model.cost import graph_seconds, node_seconds
from tf_exla.model.machine import cache_bytes
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan

AMPLE = 10**12
OPTIONS = Options(cores=2, chunk_bytes=1 << 22, body_bytes=3 << 21)


def kernel_product(n: int, others: int = 0) -> Graph:
    """(k + k²) v, k = exp(x yᵀ): large matrices between small ones, and other small ones."""

    def fn(xp: Any, x: Any, y: Any, v: Any) -> Any:
        for _ in range(others):
            v = xp.exp(v)
        k = xp.exp(x @ y.T)
        return (k + k * k) @ v

    return trace(fn, (n, 3), (n, 3), (n, 1))


def dense(n: int) -> Graph:
    """(a b) c: what it takes is products, whose time chunks do not change."""
    return trace(lambda xp, a, c: (a @ c) @ c, (n, n), (n, n))


def iterated(n: int) -> Graph:
    """A few steps v -> softmax(v - c) 1, where the loop holds only c, computed before it."""

    def fn(xp: Any, x: Any, y: Any, v: Any) -> Any:
        c = xp.exp(x @ y.T)

        def step(xp: Any, i: Any, v: Any, c: Any) -> Any:
            made = xp.exp(v - c)
            return [i + np.int32(1), xp.sum(made / xp.sum(made, 1, keepdims=True), 0), c]

        return xp.while_loop(lambda xp, i, *_: xp.less(i, np.int32(5)), step, [np.int32(0), v, c])

    return trace(fn, (n, 3), (n, 3), (n,))


def optimized(graph: Graph, options: Options = OPTIONS) -> Plan:
    return optimize_graph(graph, InPlaceOps(), limit=AMPLE, options=options)


def loops(plan: Plan) -> list[Loop]:
    return [node for node in plan.graph.nodes if isinstance(node, Loop)]


def test_chunks_in_cache_are_faster() -> None:
    graph = kernel_product(4001)
    plan = optimized(graph)
    assert plan.for_speed
    assert loops(plan)
    assert plan.working_set < plan.working_set_before / 20
    whole = optimized(graph, replace(OPTIONS, rewrites={"in-cache": False})).graph
    assert graph_seconds(InPlaceOps(), plan.graph) < 0.76 * graph_seconds(InPlaceOps(), whole)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(tensor.dims) for tensor in graph.inputs]
    (made,), (want,) = evaluate(plan.graph, *values), evaluate(graph, *values)
    np.testing.assert_allclose(made, want, rtol=1e-10)


def test_bodies_of_loops_are_split_too() -> None:
    graph = iterated(2003)
    plan = optimized(graph)
    assert plan.for_speed
    (loop,) = filter(is_while, plan.graph.nodes)
    assert body_of(loop).has_loops
    whole = optimized(graph, replace(OPTIONS, rewrites={"in-cache": False})).graph
    assert graph_seconds(InPlaceOps(), plan.graph) < 0.76 * graph_seconds(InPlaceOps(), whole)
    values = [np.random.default_rng(0).standard_normal(tensor.dims) for tensor in graph.inputs]
    for made, want in zip(evaluate(plan.graph, *values), evaluate(graph, *values), strict=True):
        np.testing.assert_allclose(made, want, rtol=1e-10)


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (kernel_product(4001), replace(OPTIONS, rewrites={"in-cache": False})),
        (kernel_product(4001), replace(OPTIONS, cached=False)),
        (
            kernel_product(4001),
            replace(OPTIONS, chunk_bytes=1 << 28),
        ),  # three matrices fit the cache
        (kernel_product(1100, others=300), OPTIONS),  # a search takes more than calls save
        (dense(1500), OPTIONS),
    ],
)
def test_what_gains_nothing_stays_whole(graph: Graph, options: Options) -> None:
    plan = optimized(graph, options)
    assert not plan.for_speed
    assert not loops(plan)


def test_the_operands_of_a_node_share_the_cache() -> None:
    """A matrix of 128 MB fits 268 MB. The sum of two, with its result, does not."""
    assert optimized(kernel_product(4001), replace(OPTIONS, chunk_bytes=1 << 27)).for_speed


@pytest.mark.parametrize("share", [0.05, 0.2, 0.9, 1.1])
def test_more_room_costs_no_time(share: float) -> None:
    graph = kernel_product(4001)
    needed = optimized(graph).projected_peak_before
    times = []
    for limit in (0.05, share):
        plan = optimize_graph(graph, InPlaceOps(), limit=int(limit * needed), options=OPTIONS)
        times.append(graph_seconds(InPlaceOps(), plan.graph, promises=False))
    assert times[1] <= 1.05 * times[0]


def test_a_chunk_larger_than_the_cache_is_not_estimated_as_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = loops(optimized(kernel_product(4001)))[0]
    cached = node_seconds(InPlaceOps(), loop)
    monkeypatch.setattr(cost, "CACHE", 1 << 10)
    uncached = node_seconds(InPlaceOps(), loop)
    body = [graph_seconds(InPlaceOps(), loop.body, byte) for byte in (CPU.cached_byte, CPU.byte)]
    assert uncached - cached > 0.5 * loop.mean_trip_count * (body[1] - body[0]) > 0


def test_a_reported_cache_of_many_cores_counts_as_a_small_one(tmp_path: Path) -> None:
    for size, found in (("480M", 32 << 20), ("8192K", 8 << 20), ("none", 32 << 20)):
        folder = tmp_path / size
        (folder / "index3").mkdir(parents=True)
        (folder / "index3" / "size").write_text(f"{size}\n")
        assert cache_bytes(folder) == found
