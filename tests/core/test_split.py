"""Splitting: the split program computes the same, within the budget."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Loop, SplitAxis, Tensor
from tf_exla.ir.traverse import walk
from tf_exla.model.cost import graph_flops
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.forms import Forms
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.split.incumbent import Incumbent
from tf_exla.split.loops import online_reduction
from tf_exla.split.loops.online_state import OnlineReduction
from tf_exla.split.loops.resize import cut
from tf_exla.split.loops.stages import arrange, rewrite
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow
from tf_exla.vocabulary.op_set import VocabularyOps

OPTIONS = Options(cores=2)


def matvec(n: int = 997) -> Graph:
    """exp(x yᵀ) v"""
    return trace(lambda xp, x, y, v: xp.exp(x @ y.T) @ v, (n, 3), (1009, 3), (1009, 2))


def gram(n: int = 1201) -> Graph:
    """A Aᵀ and A e of A = exp(z xᵀ), then a second pass over A: two stages, two results."""

    def fn(xp: Any, z: Any, x: Any, e: Any) -> Any:
        a = xp.exp(z @ x.T)
        root = xp.linalg.cholesky(a @ a.T + np.eye(40))
        return a @ e, ((root @ a) * a) @ x, xp.sum(root, axis=0)

    return trace(fn, (40, 3), (n, 3), (n, 1))


def softmax(n: int = 301) -> Graph:
    """Row softmax times v, with the row maximum subtracted: one stage."""

    def fn(xp: Any, q: Any, k: Any, v: Any) -> Any:
        s = q @ k.T
        e = xp.exp(s - xp.expand_dims(xp.max(s, axis=1), 1))
        total = xp.expand_dims(xp.sum(e, axis=1), 1)
        return (e * (xp.exp(total * 0.0) * 0.5)) @ v

    return trace(fn, (n, 8), (503, 8), (503, 8))


def weighted(n: int = 3, m: int = 20011) -> Graph:
    """Softmax of few long rows times v: the largest number and the sum along the long axis."""

    def fn(xp: Any, q: Any, k: Any, v: Any) -> Any:
        s = q @ k
        e = xp.exp(s - xp.expand_dims(xp.max(s, axis=1), 1))
        return (e / xp.expand_dims(xp.sum(e, axis=1), 1)) @ v

    return trace(fn, (n, 8), (8, m), (m, 5))


def same_twice(n: int = 600) -> Graph:
    """K(x, x) v with one x under two letters."""
    return trace(lambda xp, x, v: xp.exp(x @ x.T) @ v, (n, 2), (n, 1))


def twice_applied(n: int = 500) -> Graph:
    """K (K v) of one K: the second product needs the first one completed."""
    return trace(lambda xp, x, v: (k := xp.exp(x @ x.T)) @ (k @ v), (n, 2), (n, 1))


def symmetric_in_two_places(n: int = 60) -> Graph:
    """A symmetric matrix repeated along one axis and along another, all axes of one size."""

    def fn(xp: Any, x: Any, w: Any, u: Any) -> Any:
        k = xp.exp(x @ x.T)
        first = xp.broadcast_to(k[None], (n, n, n)) * 2.0
        second = xp.broadcast_to(k[:, None], (n, n, n)) * 2.0
        return xp.sum(first * w, axis=(1, 2)), xp.sum(second * u, axis=(0, 2))

    return trace(fn, (n, 3), (n, 1, n), (1, n, n))


def repeated_slice(n: int = 300, times: int = 15) -> Graph:
    """Chunks of a repeated tensor may be longer than the tensor, which a slice takes whole."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        k = xp.exp(xp.matmul(x, y))[0, 0:n, 0:n]
        return xp.sum(xp.exp(xp.cumsum(xp.tile(k, (1, times)), 0) * -0.01), axis=1)

    return trace(fn, (2, n, 3), (2, 3, n))


def rows_of_a_slice(n: int = 150) -> Graph:
    """A While that reads rows of a slice with two axes."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        d = xp.exp(x @ y)[1:, :]
        return xp.while_loop(
            lambda xp, i, d, v: xp.less(i, np.int32(n - 1)),
            lambda xp, i, d, v: (i + np.int32(1), d, v + xp.tanh(xp.take(d, i, 0) * v)),
            (np.int32(0), d, xp.zeros((n,))),
        )[2]

    return trace(fn, (n, 3), (3, n))


def filled(n: int = 800) -> Graph:
    """A constant broadcast to [n, n] times v."""
    return trace(lambda xp, v: xp.exp(xp.full((n, n), 0.25)) @ v, (n, 1))


def merged(n: int = 350) -> Graph:
    """[b, n] reshaped to [b n], times weights, summed."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        return xp.sum(xp.exp(xp.reshape(xp.exp(x @ y.T), (n * 500,)) * 0.1), axis=0)

    return trace(fn, (n, 3), (500, 3))


def neighbours(n: int = 3) -> Graph:
    """The seven largest of each of few rows: only the long axis can be split."""
    return trace(lambda xp, x, y: xp.top_k(xp.exp(x @ y), 7), (n, 3), (3, 20011))


PROGRAMS: list[Callable[..., Graph]] = [
    matvec, gram, softmax, same_twice, twice_applied, filled, merged, neighbours, weighted,
    symmetric_in_two_places, repeated_slice, rows_of_a_slice,
]  # fmt: skip


EXCLUDING = (gram, merged, symmetric_in_two_places)
"""Programs of which the search excludes candidates by a bound."""


def loops_of(graph: Graph) -> list[Loop]:
    return [node for node in walk(graph) if isinstance(node, Loop)]


@pytest.mark.parametrize("fraction", [0.8, 0.5, 0.2, 0.08, 0.0])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_numbers_below_the_limit(program: Callable[..., Graph], fraction: float) -> None:
    graph = program()
    projector = Projector(InPlaceOps())
    overhead = projector.working_set(graph) - projector.project(graph).working_set
    budget = int(projector.project(graph).working_set * fraction) + overhead
    limit = resident_bytes(graph) + budget
    if not fraction:
        with pytest.raises(MemoryLimitError) as info:
            optimize_graph(graph, InPlaceOps(), limit=limit, options=OPTIONS)
        assert info.value.smallest_limit is not None
        limit = info.value.smallest_limit
    plan = optimize_graph(graph, InPlaceOps(), limit=limit, options=OPTIONS)
    assert plan.projected_peak <= limit
    assert loops_of(plan.graph) or program is rows_of_a_slice  # its While may make the rows itself
    check_graph(plan.graph, graph)
    rng = np.random.default_rng(0)
    values = [0.3 * rng.standard_normal(tensor.dims) for tensor in graph.inputs]
    for got, want in zip(evaluate(plan.graph, *values), evaluate(graph, *values), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_candidates_without_chunks_would_not_be_chosen(
    program: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Branch and bound changes no plan; and it spares some candidates their chunks."""

    def smallest() -> tuple[int | None, list[str]]:
        with pytest.raises(MemoryLimitError) as info:
            optimize_graph(graph, InPlaceOps(), limit=1, options=OPTIONS)
        least = info.value.smallest_limit
        plan = optimize_graph(graph, InPlaceOps(), limit=least, options=OPTIONS)
        return least, list(map(str, loops_of(plan.graph)))

    graph = program()
    excluded: list[bool] = []
    excludes = Incumbent.excludes

    def recorded(self: Incumbent, made: Graph) -> bool:
        excluded.append(excludes(self, made))
        return excluded[-1]

    monkeypatch.setattr(Incumbent, "excludes", recorded)
    found = smallest()
    monkeypatch.setattr(Incumbent, "excludes", lambda self, made: False)
    assert smallest() == found
    assert any(excluded) or program not in EXCLUDING


def test_generous_limit_leaves_the_graph_as_it_is() -> None:
    graph = trace(lambda xp, x, y: xp.exp(x @ y) @ x, (997, 3), (3, 997))
    plan = optimize_graph(graph, InPlaceOps(), limit=10**9, options=OPTIONS)
    assert plan.graph is graph


def test_the_peak_of_the_original_is_enough_if_results_are_computed_twice() -> None:
    """A merged result would live in between, beside what needs the most memory."""

    def fn(xp: Any, x: Any) -> list[Any]:
        first = xp.sum(xp.cumsum(x, 0))
        between = xp.sum(xp.cumsum(xp.cumsum(x * 2.0, 0), 0))
        return [first, between, xp.max(xp.cumsum(x, 0))]

    graph, ops = trace(fn, (500_000,)), InPlaceOps()
    options = Options(cores=2, cached=False)
    generous = optimize_graph(graph, ops, limit=1 << 40, options=options)
    enough = generous.projected_peak_before
    assert generous.projected_peak > enough + 3_000_000
    plan = optimize_graph(graph, ops, limit=enough, options=options)
    assert [node.op for node in plan.graph.nodes].count("cumsum") == 4
    with pytest.raises(MemoryLimitError) as info:
        optimize_graph(graph, ops, limit=1, options=options)
    limit = info.value.smallest_limit
    assert limit is not None
    assert limit <= enough
    assert optimize_graph(graph, ops, limit=limit, options=options).projected_peak <= limit


def test_copies_that_are_compared_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two sizes may differ in the last bits: a maximum of one is not in the other."""

    def fn(xp: Any, x: Any) -> list[Any]:
        most = xp.max(xp.exp(x), axis=1, keepdims=True)
        return [xp.sum(xp.equal(xp.exp(x), most)), xp.sum(xp.exp(x) @ xp.exp(x))]

    graph, ops = trace(fn, (500, 500)), InPlaceOps()
    monkeypatch.setattr(Forms, "_all", lambda forms: iter([forms._apart()]))
    with pytest.raises(MemoryLimitError) as info:
        optimize_graph(graph, ops, limit=1, options=Options(cores=2))
    limit = info.value.smallest_limit
    plan = optimize_graph(graph, ops, limit=limit, options=Options(cores=2))
    assert not any(isinstance(node, Loop) for node in plan.graph.nodes)


def test_a_chunk_of_a_constant_has_no_static_value() -> None:
    whole = Tensor((4, 2), "float64", "x", value=np.arange(8.0).reshape(4, 2))
    same = Tensor((2,), "float64", "y", value=np.arange(2.0))
    template = Graph((whole, same), (), (whole, same))
    body = cut(InPlaceOps(), template, {whole: SplitAxis(0)}, 1)
    assert body.inputs[0].shape == (1, 2)
    assert body.inputs[0].value is None  # which part of it depends on the iteration
    assert body.inputs[1].value is same.value


def test_stages() -> None:
    plan = optimize_graph(gram(), InPlaceOps(), limit=1_500_000, options=OPTIONS)
    assert [loop.stage for loop in loops_of(plan.graph)] == [0, 1]
    first, second = loops_of(plan.graph)
    assert sorted(str(result) for result in first.results) == ["add", "add"]
    assert "exp" in " ".join(second.recomputed)


def test_row_statistics_are_no_new_stage() -> None:
    plan = optimize_graph(softmax(), InPlaceOps(), limit=1_400_000, options=OPTIONS)
    assert [loop.stage for loop in loops_of(plan.graph)] == [0]


def test_a_softmax_streams() -> None:
    """The largest number, the sum and the product need one pass, not three."""
    graph = weighted(m=200011)
    limit = resident_bytes(graph) + 3_000_000
    plan = optimize_graph(graph, InPlaceOps(), limit=limit, options=OPTIONS)
    (loop,) = loops_of(plan.graph)
    assert [str(result) for result in loop.results] == ["running max", "running add", "running add"]


def test_what_cannot_stream_is_told_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sum streams of a pair of loops that `may_stream` excludes."""
    may_stream, asked = online_reduction.may_stream, []

    def checked(loop: Loop, later: Loop, completed: online_reduction.Completed) -> bool:
        may = may_stream(loop, later, completed)
        shared = online_reduction.Shared()
        tried = OnlineReduction(VocabularyOps(), loop, later, completed, shared)
        assert may or not tried.sums()
        asked.append(may)
        return may

    monkeypatch.setattr(online_reduction, "may_stream", checked)
    for program in PROGRAMS:
        with suppress(MemoryLimitError):
            optimize_graph(program(), VocabularyOps(), limit=1, resident=0)
    assert set(asked) == {True, False}


@pytest.mark.parametrize("symmetry", [True, False])
def test_symmetric_tiles(symmetry: bool) -> None:
    """K(x, x) v needs the tiles on and below the diagonal only, K(x, y) v all of them."""
    options = Options(cores=2, rewrites={"symmetry": symmetry})
    for program, halves in ((same_twice, symmetry), (matvec, False)):
        graph = program(3000)
        plan = optimize_graph(graph, InPlaceOps(), limit=20_000_000, options=options)
        assert any(loop.triangular for loop in loops_of(plan.graph)) == halves
        flops = graph_flops(InPlaceOps(), plan.graph) / graph_flops(InPlaceOps(), graph)
        assert flops == pytest.approx(0.6 if halves else 1.0, abs=0.1)


@pytest.mark.parametrize(
    ("cores", "limit", "chunks", "tiles"),
    [(2, 8_000_000, 4, 2), (1, 8_000_000, 1, 1), (2, 2_100_000, 1, 2)],
)
def test_iterations_run_side_by_side(cores: int, limit: int, chunks: int, tiles: int) -> None:
    """Four chunks at a time, but not if they shrink; tiles of pairs two by two. One on one core."""
    options = Options(cores=cores)
    plan = optimize_graph(matvec(3000), InPlaceOps(), limit=limit, options=options)
    assert [loop.parallel for loop in loops_of(plan.graph)] == [chunks]
    pairs = optimize_graph(same_twice(3000), InPlaceOps(), limit=limit, options=options)
    found = {
        loop.triangular: loop.parallel for loop in loops_of(pairs.graph) if loop.iterations > 1
    }
    assert found == dict.fromkeys((False, True), tiles)


def test_results_of_remade_nodes_are_not_saved_between_stages() -> None:
    """`full` is in the loops, and outside of them for the second product: no loop makes it."""

    def fn(xp: Any, x: Any, v: Any) -> Any:
        ones = xp.full((900, 700), 1.0)
        a = xp.exp(x @ x.T[:, :700]) * ones
        b = a / xp.expand_dims(xp.sum(a, axis=0), 0)
        return xp.sum(b * ones, axis=1), ones @ v

    graph = trace(fn, (900, 4), (700, 2))
    ops = InPlaceOps()
    index = DefUse(graph, ops)
    seed = next(node.output for node in graph.nodes if node.op == "exp")

    def large(tensor: Tensor) -> bool:
        return tensor.size >= 600_000

    region = grow(index, seed, 0, large, remake=True)
    assert region is not None
    assert {node.op for node in region.remade} == {"full"}
    again = arrange(index, region, large).recomputed_large(large)
    assert again
    for kept in again:
        made = next(rewrite(index, arrange(index, region, large, frozenset({kept}))))
        results = [tensor for node in made.nodes for tensor in node.outputs]
        assert len(results) == len(set(results))


def test_what_a_product_enlarges_is_concatenated() -> None:
    """A sum over chunks of a result that is larger than its operand would need three of them."""

    def fn(xp: Any, x: Any, w: Any) -> Any:
        a = xp.reshape(xp.exp(x), (600, 50, 40))
        root = xp.linalg.cholesky(xp.matmul(xp.permute_dims(a, (0, 2, 1)), a) + np.eye(40))
        return xp.sum(xp.sum(root, axis=1), axis=1, keepdims=True).T @ w

    graph = trace(fn, (600, 2000), (600, 5003))
    index = DefUse(graph, InPlaceOps())
    matrix = next(node.outputs[0] for node in graph.nodes if node.op == "exp")
    region = grow(index, matrix, 0, lambda tensor: tensor.nbytes > 1000)
    assert region is not None
    assert region.enlarging() == {index.producer[graph.outputs[0]]}
    with pytest.raises(MemoryLimitError) as info:
        optimize_graph(graph, InPlaceOps(), limit=resident_bytes(graph), options=OPTIONS)
    assert info.value.smallest_limit is not None
    projector = Projector(InPlaceOps())
    kept = projector.working_set(graph) - projector.project(graph).working_set
    limit = resident_bytes(graph) + kept + 2 * graph.outputs[0].nbytes
    assert info.value.smallest_limit < limit
