"""Splitting on toy graphs: the split program computes the same, within the budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from core.toy import Builder, ToyOps, run
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Loop, SplitAxis, Tensor
from tf_exla.ir.traverse import walk
from tf_exla.model.cost import graph_flops
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.split.resize import cut

OPTIONS = Options(cores=2)


def matvec(n: int = 997) -> Graph:
    """exp(x yᵀ) v"""
    b = Builder()
    x, y, v = b.input(n, 3), b.input(1009, 3), b.input(1009, 2)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", y)))
    return b.graph(b.op("matmul", k, v))


def gram(n: int = 1201) -> Graph:
    """A Aᵀ and A e of A = exp(z xᵀ), then a second pass over A: two stages, two results."""
    b = Builder()
    z, x, e = b.input(40, 3), b.input(n, 3), b.input(n, 1)
    a = b.op("exp", b.op("matmul", z, b.op("permute_dims", x)))
    aat = b.op("matmul", a, b.op("permute_dims", a))
    ae = b.op("matmul", a, e)
    inner = b.op("Inverse", b.op("add", aat, b.const(np.eye(40))))
    g = b.op("matmul", inner, a)
    grad = b.op("matmul", b.op("multiply", g, a), x)
    return b.graph(ae, grad, b.op("sum", inner, axis=0))


def softmax(n: int = 301) -> Graph:
    """Row softmax times v, with the row maximum subtracted: one stage."""
    b = Builder()
    q, k, v = b.input(n, 8), b.input(503, 8), b.input(503, 8)
    s = b.op("matmul", q, b.op("permute_dims", k))
    e = b.op("exp", b.op("subtract", s, b.op("Column", b.op("max", s, axis=1))))
    total = b.op("Column", b.op("sum", e, axis=1))
    ones = b.op("exp", b.op("multiply", total, b.const(0.0)))
    weights = b.op("multiply", e, b.op("multiply", ones, b.const(0.5)))
    return b.graph(b.op("matmul", weights, v))


def weighted(n: int = 3) -> Graph:
    """Softmax of few long rows times v: the largest number and the sum along the long axis."""
    b = Builder()
    q, k, v = b.input(n, 8), b.input(20011, 8), b.input(20011, 5)
    s = b.op("matmul", q, b.op("permute_dims", k))
    e = b.op("exp", b.op("subtract", s, b.op("Column", b.op("max", s, axis=1))))
    weights = b.op("divide", e, b.op("Column", b.op("sum", e, axis=1)))
    return b.graph(b.op("matmul", weights, v))


def same_twice(n: int = 600) -> Graph:
    """K(x, x) v with one x under two letters."""
    b = Builder()
    x, v = b.input(n, 2), b.input(n, 1)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", x)))
    return b.graph(b.op("matmul", k, v))


def twice_applied(n: int = 500) -> Graph:
    """K (K v) of one K: the second product needs the first one completed."""
    b = Builder()
    x, v = b.input(n, 2), b.input(n, 1)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", x)))
    return b.graph(b.op("matmul", k, b.op("matmul", k, v)))


def filled(n: int = 800) -> Graph:
    """A constant broadcast to [n, n] times v."""
    b = Builder()
    v = b.input(n, 1)
    f = b.op("full", b.const(np.array([n, n])), b.const(0.25))
    return b.graph(b.op("matmul", b.op("exp", f), v))


def merged(n: int = 350) -> Graph:
    """[b, n] reshaped to [b n], times weights, summed."""
    b = Builder()
    x, y = b.input(n, 3), b.input(500, 3)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", y)))
    flat = b.op("Merge", k, b.const(np.array([n * 500])))
    return b.graph(b.op("sum", b.op("exp", b.op("multiply", flat, b.const(0.1))), axis=0))


def neighbours(n: int = 3) -> Graph:
    """The seven largest of each of few rows: only the long axis can be split."""
    b = Builder()
    x, y = b.input(n, 3), b.input(20011, 3)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", y)))
    return b.graph(*b.top_k(k, 7))


PROGRAMS: list[Callable[..., Graph]] = [
    matvec, gram, softmax, same_twice, twice_applied, filled, merged, neighbours, weighted,
]  # fmt: skip


def loops_of(graph: Graph) -> list[Loop]:
    return [node for node in walk(graph) if isinstance(node, Loop)]


@pytest.mark.parametrize("fraction", [0.5, 0.2, 0.08])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_numbers_below_the_limit(program: Callable[..., Graph], fraction: float) -> None:
    graph = program()
    projector = Projector(ToyOps())
    overhead = projector.working_set(graph) - projector.project(graph).working_set
    budget = int(projector.project(graph).working_set * fraction) + overhead
    limit = resident_bytes(graph) + budget
    plan = optimize_graph(graph, ToyOps(), limit=limit, options=OPTIONS)
    assert plan.projected_peak <= limit
    assert loops_of(plan.graph)
    check_graph(plan.graph, graph)
    rng = np.random.default_rng(0)
    values = [0.3 * rng.standard_normal(tensor.dims) for tensor in graph.inputs]
    for got, want in zip(run(plan.graph, *values), run(graph, *values), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def test_generous_limit_leaves_the_graph_as_it_is() -> None:
    graph = matvec()
    plan = optimize_graph(graph, ToyOps(), limit=10**9, options=OPTIONS)
    assert plan.graph is graph


def test_a_chunk_of_a_constant_has_no_static_value() -> None:
    whole = Tensor((4, 2), "float64", "x", value=np.arange(8.0).reshape(4, 2))
    same = Tensor((2,), "float64", "y", value=np.arange(2.0))
    template = Graph((whole, same), (), (whole, same))
    body = cut(ToyOps(), template, {whole: SplitAxis(0)}, 1)
    assert body.inputs[0].shape == (1, 2)
    assert body.inputs[0].value is None  # which part of it depends on the iteration
    assert body.inputs[1].value is same.value


def test_stages() -> None:
    plan = optimize_graph(gram(), ToyOps(), limit=1_500_000, options=OPTIONS)
    assert [loop.stage for loop in loops_of(plan.graph)] == [0, 1]
    first, second = loops_of(plan.graph)
    assert sorted(str(result) for result in first.results) == ["add", "add"]
    assert "exp" in " ".join(second.recomputed)


def test_row_statistics_are_no_new_stage() -> None:
    plan = optimize_graph(softmax(), ToyOps(), limit=1_400_000, options=OPTIONS)
    assert [loop.stage for loop in loops_of(plan.graph)] == [0]


def test_a_softmax_streams() -> None:
    """The largest number, the sum and the product need one pass, not three."""
    graph = weighted()
    limit = resident_bytes(graph) + Projector(ToyOps()).working_set(graph) - 1_300_000
    plan = optimize_graph(graph, ToyOps(), limit=limit, options=OPTIONS)
    (loop,) = loops_of(plan.graph)
    assert [str(result) for result in loop.results] == ["running max", "running add", "running add"]


@pytest.mark.parametrize("symmetry", [True, False])
def test_symmetric_tiles(symmetry: bool) -> None:
    """K(x, x) v needs the tiles on and below the diagonal only, K(x, y) v all of them."""
    options = Options(cores=2, rewrites={"symmetry": symmetry})
    for program, halves in ((same_twice, symmetry), (matvec, False)):
        graph = program(3000)
        plan = optimize_graph(graph, ToyOps(), limit=20_000_000, options=options)
        assert any(loop.triangular for loop in loops_of(plan.graph)) == halves
        flops = graph_flops(ToyOps(), plan.graph) / graph_flops(ToyOps(), graph)
        assert flops == pytest.approx(0.6 if halves else 1.0, abs=0.1)


@pytest.mark.parametrize(
    ("cores", "limit", "chunks", "tiles"),
    [(2, 8_000_000, 4, 2), (1, 8_000_000, 1, 1), (2, 2_100_000, 1, 1)],
)
def test_iterations_run_side_by_side(cores: int, limit: int, chunks: int, tiles: int) -> None:
    """Four chunks at a time, tiles of pairs two by two; neither on one core, nor if they shrink."""
    options = Options(cores=cores)
    plan = optimize_graph(matvec(3000), ToyOps(), limit=limit, options=options)
    assert [loop.parallel for loop in loops_of(plan.graph)] == [chunks]
    pairs = optimize_graph(same_twice(3000), ToyOps(), limit=limit, options=options)
    found = {
        loop.triangular: loop.parallel for loop in loops_of(pairs.graph) if loop.iterations > 1
    }
    assert found == dict.fromkeys((False, True), tiles)
