"""Equal parts of a program: splits count as progress, and what is projected once serves for all."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from core.toy import Builder, ToyOps, run
from tf_exla.errors import MemoryLimitError
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
    b = Builder()
    results = []
    for k in range(count):
        n = first if k == 0 else N
        scores = b.op("matmul", b.input(n, 3), b.input(3, n))
        made = b.op("exp", scores) if exponent or k else scores
        results.append(b.op("sum", made, axis=1))
    return b.graph(*results)


def smallest(graph: Graph) -> int:
    with pytest.raises(MemoryLimitError) as caught:
        optimize_graph(graph, ToyOps(), limit=1, options=OPTIONS)
    return caught.value.smallest_limit


@pytest.mark.parametrize("count", [2, 5, 26])
def test_equal_peaks_are_split_one_after_the_other(count: int) -> None:
    """As many steps as it takes: 26 are more than a bound of 24 would do."""
    graph = exponentials(count)
    least = smallest(graph)
    assert least < smallest(exponentials(1)) + (count - 1) * 60_000
    plan = optimize_graph(graph, ToyOps(), limit=least + 400_000, options=OPTIONS)
    assert plan.projected_peak <= least + 400_000
    if count == 2:
        rng = np.random.default_rng(0)
        values = [rng.standard_normal(tensor.dims) for tensor in graph.inputs]
        for new, old in zip(run(plan.graph, *values), run(graph, *values), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-12)


def test_a_peak_that_cannot_fall_ends_the_search() -> None:
    b = Builder()
    whole = [b.op("Inverse", b.input(N, N)) for _ in range(2)]
    other = b.op("sum", b.op("exp", b.op("matmul", b.input(N, 3), b.input(3, N))), axis=1)
    matrix = 8 * N * N
    assert 4 * matrix < smallest(b.graph(*whole, other)) < 5 * matrix


def structures(graph: Graph) -> list[object]:
    plan = optimize_graph(graph, ToyOps(), limit=smallest(graph) + 400_000, options=OPTIONS)
    return [structure_of(node) for node in walk(plan.graph) if isinstance(node, Loop)]


def test_loops_of_equal_parts_have_one_structure() -> None:
    assert len({hash(one) for one in structures(exponentials(3))}) == 1


def test_loops_of_equal_parts_share_a_body() -> None:
    graph = exponentials(3)
    plan = optimize_graph(graph, ToyOps(), limit=smallest(graph) + 400_000, options=OPTIONS)
    loops = [node for node in plan.graph.nodes if isinstance(node, Loop)]
    assert len({loop.body for loop in loops}) == len({loop.chunk for loop in loops}) < len(loops)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(tensor.dims) for tensor in graph.inputs]
    for new, old in zip(run(plan.graph, *values), run(graph, *values), strict=True):
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
        optimize_graph(graph, ToyOps(), limit=smallest(graph) + 400_000, options=OPTIONS)
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
        optimize_graph(graph, ToyOps(), limit=3_000_000, options=OPTIONS, function="slow")
        assert not caplog.records
        monkeypatch.setattr(patience.Patience, "__init__", _impatient)
        optimize_graph(graph, ToyOps(), limit=3_000_000, options=OPTIONS, function="slow")
    assert len(caplog.records) >= 1
    assert "planning slow (6 nodes)" in caplog.text


def _impatient(self: patience.Patience, function: str, nodes: int) -> None:
    self.function, self.nodes = function, nodes
    self._started, self._silent = 0.0, 0.0
