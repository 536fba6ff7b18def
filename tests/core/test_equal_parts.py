"""Equal parts of a program: splits count as progress, and what is projected once serves for all."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.structure import structure_of
from tf_exla.ir.traverse import walk
from tf_exla.model.lifetimes import _Walk
from tf_exla.model.options import Options
from tf_exla.pipeline import patience
from tf_exla.pipeline.optimize import optimize_graph

OPTIONS = Options(chunk_bytes=1 << 20, body_bytes=3 << 19, cached=False, cores=2)
N = 600


def exponentials(count: int, first: int = N, exponent: bool = True) -> Graph:
    """Sums of exp(a b), of `count` pairs; the first may be of another size."""

    def fn(xp: Any, *arrays: Any) -> Any:
        def part(k: int) -> Any:
            scores = arrays[2 * k] @ arrays[2 * k + 1]
            return xp.sum(xp.exp(scores) if exponent or k else abs(scores), axis=1)

        return [part(k) for k in range(count)]

    sizes = [first, *[N] * (count - 1)]
    return trace(fn, *(shape for n in sizes for shape in ((n, 3), (3, n))))


def smallest(graph: Graph) -> int:
    with pytest.raises(MemoryLimitError) as caught:
        optimize_graph(graph, InPlaceOps(), limit=1, options=OPTIONS)
    return caught.value.smallest_limit


@pytest.mark.parametrize("count", [2, 5, 26])
def test_equal_peaks_are_split_one_after_the_other(count: int) -> None:
    """As many steps as it takes: 26 are more than a bound of 24 would do."""
    graph = exponentials(count)
    least = smallest(graph)
    assert least < smallest(exponentials(1)) + (count - 1) * 60_000
    plan = optimize_graph(graph, InPlaceOps(), limit=least + 400_000, options=OPTIONS)
    assert plan.projected_peak <= least + 400_000
    if count == 2:
        rng = np.random.default_rng(0)
        values = [rng.standard_normal(tensor.dims) for tensor in graph.inputs]
        for new, old in zip(evaluate(plan.graph, *values), evaluate(graph, *values), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-12)


def test_a_peak_that_cannot_fall_ends_the_search() -> None:
    def fn(xp: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
        roots = [xp.linalg.cholesky(one) for one in (a, b)]
        return roots, xp.sum(xp.exp(x @ y), axis=1)

    matrix = 8 * N * N
    assert 4 * matrix < smallest(trace(fn, (N, N), (N, N), (N, 3), (3, N))) < 5 * matrix


def attentions(count: int, n: int = 3000, few: int = 32, heads: int = 4) -> Graph:
    """`count` - 1 times, few rows attend to all; then all rows attend to the few."""

    def attend(xp: Any, queries: Any, keys: Any, weights: Any) -> Any:
        def by_heads(x: Any, weight: Any) -> Any:
            return xp.reshape(x @ weight, (len(x), heads, -1))

        q = by_heads(queries, weights[0])
        k, v = (by_heads(keys, weight) for weight in weights[1:])
        e = xp.einsum("ihd,jhd->hij", q, k)
        e = xp.exp(e - xp.max(e, axis=2, keepdims=True))
        e = e / xp.sum(e, axis=2, keepdims=True)
        return xp.reshape(xp.einsum("hij,jhd->ihd", e, v), (len(queries), -1))

    def fn(xp: Any, x: Any, h: Any, *weights: Any) -> Any:
        for k in range(count - 1):
            h = attend(xp, h, x, weights[3 * k :][:3])
        return xp.max(attend(xp, x, h, weights[-3:]), axis=0)

    return trace(fn, (n, 32), (few, 32), *[(32, 32)] * (3 * count))


@pytest.mark.parametrize("count", [2, 3])
def test_loops_of_one_part_are_chosen_by_their_own_bytes(count: int) -> None:
    """A loop over few rows of both parts has a lower peak, and cannot be split again."""
    graph = attentions(count)
    matrix = 8 * 4 * 32 * 3000
    assert smallest(graph) < smallest(attentions(1)) + matrix // 2
    plan = optimize_graph(graph, InPlaceOps(), limit=2_500_000, options=OPTIONS)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(tensor.dims) / 3 for tensor in graph.inputs]
    (new,), (old,) = evaluate(plan.graph, *values), evaluate(graph, *values)
    np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-12)


def structures(graph: Graph) -> list[object]:
    plan = optimize_graph(graph, InPlaceOps(), limit=smallest(graph) + 400_000, options=OPTIONS)
    return [structure_of(node) for node in walk(plan.graph) if isinstance(node, Loop)]


def test_loops_of_equal_parts_have_one_structure() -> None:
    assert len({hash(one) for one in structures(exponentials(3))}) == 1


def test_loops_of_equal_parts_share_a_body() -> None:
    graph = exponentials(3)
    plan = optimize_graph(graph, InPlaceOps(), limit=smallest(graph) + 400_000, options=OPTIONS)
    loops = [node for node in plan.graph.nodes if isinstance(node, Loop)]
    assert len({loop.body for loop in loops}) == len({loop.chunk for loop in loops}) < len(loops)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(tensor.dims) for tensor in graph.inputs]
    for new, old in zip(evaluate(plan.graph, *values), evaluate(graph, *values), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-12)
    assert len(set(structures(exponentials(3)))) == 1


@pytest.mark.parametrize("other", [exponentials(3, first=N + 8), exponentials(3, exponent=False)])
def test_loops_of_other_sizes_or_ops_have_another(other: Graph) -> None:
    assert len(set(structures(other))) == 2


def test_a_part_more_needs_few_projections_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bodies of equal loops are projected once for each size of a chunk."""
    bodies = 0

    def count(graph: Graph) -> int:
        nonlocal bodies
        bodies = 0
        optimize_graph(graph, InPlaceOps(), limit=smallest(graph) + 400_000, options=OPTIONS)
        return bodies

    init = _Walk.__init__

    def counted(self: _Walk, graph: Graph, *rest: object) -> None:
        nonlocal bodies
        bodies += len(graph.nodes) < 6
        init(self, graph, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(_Walk, "__init__", counted)
    assert count(exponentials(8)) <= 3 * count(exponentials(4))


def test_a_line_is_written_where_planning_takes_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    graph = exponentials(2)
    with caplog.at_level(logging.INFO, logger="tf_exla"):
        optimize_graph(graph, InPlaceOps(), limit=3_000_000, options=OPTIONS, function="slow")
        assert not caplog.records
        monkeypatch.setattr(patience.Patience, "__init__", _impatient)
        optimize_graph(graph, InPlaceOps(), limit=3_000_000, options=OPTIONS, function="slow")
    assert len(caplog.records) >= 1
    assert "planning slow (8 nodes)" in caplog.text


def test_levels_of_logging_are_respected(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("tf_exla")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
    monkeypatch.setattr(logger, "level", logger.level)  # restored
    monkeypatch.setattr(patience.Patience, "__init__", _impatient)
    for level, lines in ((logging.WARNING, True), (logging.ERROR, False)):
        logger.setLevel(level)
        optimize_graph(exponentials(2), InPlaceOps(), limit=3_000_000, options=OPTIONS)
        assert ("planning function" in capfd.readouterr().err) == lines


def _impatient(self: patience.Patience, function: str, nodes: int) -> None:
    self.function, self.nodes = function, nodes
    self._started, self._silent = 0.0, 0.0
