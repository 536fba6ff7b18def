"""Sinking: which producers move into a While, and what stays outside."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tf_exla.frontends.numpy import trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Node
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.user_loops import sinking
from tf_exla.moves.user_loops.sinking import sink
from tf_exla.split.regions.origins import clash
from tf_exla.vocabulary.op_set import VocabularyOps

N = 300
LARGE = 10_000


def loop(xp: Any, v: Any, k: Any, reads_in_condition: bool = False) -> Any:
    """`while ...: v = K v`, the variables (v, K)."""

    def more(xp: Any, v: Any, k: Any) -> Any:
        return xp.sum(k, axis=0) if reads_in_condition else np.array(False)

    return xp.while_loop(more, lambda xp, v, k: [k @ v, k], [v, k])


def program(stateful: bool = False, **how: bool) -> tuple[Graph, Node]:
    def fn(xp: Any, x: Any, v: Any) -> Any:
        k = xp.one("exp", [x @ x.T], (N, N), stateful=stateful)
        v, k = loop(xp, v, k, **how)
        return v, xp.sum(k, axis=0)

    graph = trace(fn, (N, 2), (N, 1))
    return graph, next(node for node in graph.nodes if node.op == "while")


def ops_in_body(graph: Graph) -> list[str]:
    (node,) = (node for node in graph.nodes if node.op == "while")
    body = node.attrs["body"]
    assert isinstance(body, Graph)
    return [inner.op for inner in computed(body)]


def computed(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op != "constant"]


def test_producers_move_and_later_readers_read_what_went_in() -> None:
    graph, _ = program()
    sunk = sink(graph, VocabularyOps(), LARGE)
    check_graph(sunk, graph)
    assert ops_in_body(sunk) == ["permute_dims", "matmul", "exp", "matmul"]
    # The column sums need K once more, outside.
    outside = computed(sunk)
    assert [node.op for node in outside] == ["permute_dims", "matmul", "exp", "while", "sum"]
    assert outside[-1].inputs[0] is outside[2].output


def test_what_stays() -> None:
    for graph in (program(stateful=True)[0], program(reads_in_condition=True)[0]):
        assert sink(graph, VocabularyOps(), LARGE) is graph
    graph, _ = program()
    assert sink(graph, VocabularyOps(), 10**9) is graph


def test_small_tensors_move_where_that_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = program()
    monkeypatch.setattr(sinking, "SETTINGS", dataclasses.replace(SETTINGS, light_work=0))
    sunk = sink(graph, VocabularyOps(), LARGE)
    check_graph(sunk, graph)
    assert ops_in_body(sunk) == ["matmul", "exp", "matmul"]


def test_what_no_iteration_changes_is_held_once() -> None:
    graph, node = program()
    step = Projector(VocabularyOps()).project(graph).steps[graph.nodes.index(node)]
    size = N * N * 8
    assert size < step.bytes < size + 50_000


def compared(op: str, within: bool) -> Graph:
    """`while ...: v = (K op m) v` with m = max(K), made inside of the loop or outside."""

    def fn(xp: Any, x: Any, v: Any) -> Any:
        k = xp.exp(x @ x.T)

        def body(xp: Any, v: Any, k: Any, m: Any) -> Any:
            found = xp.op(op, k, xp.max(k, axis=0) if within else m)
            return [xp.astype(found, "float64") @ v, k, m]

        start = [v, k, xp.max(k, axis=0)]
        return xp.while_loop(lambda xp, v, k, m: np.array(False), body, start)[0]

    return trace(fn, (N, 2), (N, 1))


@pytest.mark.parametrize("op", ["equal", "less_equal"])
def test_what_is_compared_with_its_maximum_stays(op: str) -> None:
    graph = compared(op, within=False)
    assert sink(graph, VocabularyOps(), LARGE) is graph
    assert "exp" in ops_in_body(sink(compared(op, within=True), VocabularyOps(), LARGE))


def listed() -> Graph:
    """Two loops: one carries the largest of K along, the next looks for what it carried in K."""

    def carries(xp: Any, v: Any, k: Any, carried: Any) -> Any:
        return [v, k, carried + xp.max(k, axis=0)]

    def looks(xp: Any, v: Any, k: Any, carried: Any) -> Any:
        return [xp.astype(k == carried, "float64") @ v, k, carried]

    def fn(xp: Any, x: Any, v: Any, carried: Any) -> Any:
        k = xp.exp(x @ x.T)
        for body in (carries, looks):
            v, _, carried = xp.while_loop(lambda xp, *_: np.array(False), body, [v, k, carried])
        return v

    return trace(fn, (N, 2), (N, N), (N,))


def test_what_a_loop_has_carried_is_not_looked_for_in_another_copy() -> None:
    """One of the loops may make K itself where the other reads what it made; not both."""
    graph = listed()
    sunk = sink(graph, VocabularyOps(), LARGE)
    assert clash(sunk, VocabularyOps()) is None
    loops = [node for node in sunk.nodes if node.op == "while"]
    bodies = [node.attrs["body"] for node in loops]
    assert not any("exp" in [node.op for node in body.nodes] for body in bodies)


def test_what_is_chosen_and_summed_in_other_iterations_is_not_looked_for() -> None:
    """c is made of the maximum of one iteration's K and of the sum of another's: it is chosen."""

    def body(xp: Any, v: Any, k: Any, m: Any, c: Any) -> Any:
        found = xp.op("less_equal", k, c)
        return [xp.astype(found, "float64") @ v, k, xp.max(k, axis=0), m + xp.sum(k, axis=0)]

    def fn(xp: Any, x: Any, v: Any, m: Any, c: Any) -> Any:
        k = xp.exp(x @ x.T)
        return xp.while_loop(lambda xp, *_: np.array(False), body, [v, k, m, c])[0]

    graph = trace(fn, (N, 2), (N, 1), (N,), (N,))
    assert sink(graph, VocabularyOps(), LARGE) is graph
