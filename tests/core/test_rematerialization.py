"""Rematerialization: bits, bytes, and where tensors are computed again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.model.cost import graph_seconds
from tf_exla.model.projection import Projector
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.moves.rematerialization import can_hold, rematerialize
from tf_exla.moves.rematerialization.running_sums import add_at_once
from tf_exla.vocabulary.op_set import VocabularyOps

STEPS, ROWS, WIDTH = 24, 501, 16
OPS = [ContractingOps(VocabularyOps()), ContractingOps(InPlaceOps())]


def layers(xp: Any, x: Any, w: Any) -> list[Any]:
    """The gradient of a deep network by its first layer: each step reads what it computed."""
    seen = [x]
    for _ in range(STEPS):
        seen.append(xp.tanh(xp.matmul(seen[-1], w)))
    gradient = seen[-1]
    for one in reversed(seen[1:]):
        gradient = xp.matmul(gradient * (1 - one * one), xp.matrix_transpose(w))
    return [xp.sum(seen[-1]), gradient]


def waves(xp: Any, x: Any, c: Any) -> list[Any]:
    """The gradient reads differences, not the state, and is the sum of one tensor for each step."""
    u, v, seen = x, x * 0.5, []
    for _ in range(STEPS):
        seen.append(xp.roll(u, 1, 0) - u)
        v = v + c[0, 0] * seen[-1]
        u = u + 0.1 * v
    gradient, parts = u, []
    for one in reversed(seen):
        parts.append(one * gradient)
        gradient = gradient + 0.1 * xp.roll(parts[-1], -1, 0)
    return [xp.add_n(parts), gradient]


def inputs_of(graph: Graph) -> list[Any]:
    return [np.random.default_rng(0).standard_normal(one.dims) for one in graph.inputs]


def checked(graph: Graph, made: Graph, exact: bool) -> None:
    check_graph(made, graph)
    values = inputs_of(graph)
    for found, want in zip(evaluate(made, *values), evaluate(graph, *values), strict=True):
        if exact:
            np.testing.assert_array_equal(found, want)
        else:
            np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize(("program", "least", "exact"), [(layers, 0.45, True), (waves, 0.6, False)])
def test_holds_a_part_of_the_peak(
    program: Callable[..., Any], least: float, exact: bool, ops: Any
) -> None:
    graph, projector = trace(program, (ROWS, WIDTH), (WIDTH, WIDTH)), Projector(ops)
    whole, seconds = projector.working_set(graph), graph_seconds(ops, graph)
    overhead = projector.overhead(graph)
    times = []
    for part in (1.0, 0.8, least):
        budget = overhead + int(part * (whole - overhead))
        made = rematerialize(graph, projector, budget)
        assert can_hold(graph, projector, budget)
        assert projector.working_set(made) <= budget
        checked(graph, made, exact)
        times.append(graph_seconds(ops, made))
    assert seconds == times[0] < times[1] < times[2] < 2 * seconds


def test_what_no_copy_can_free_stays() -> None:
    def pair(xp: Any, x: Any) -> Any:
        return xp.matmul(xp.exp(x), xp.exp(-x))

    graph, projector = trace(pair, (ROWS, ROWS)), Projector(OPS[0])
    assert not can_hold(graph, projector, ROWS * ROWS * 8)
    assert rematerialize(graph, projector, ROWS * ROWS * 8) is graph


def test_sums_are_added_as_they_come() -> None:
    graph, projector = trace(waves, (ROWS, WIDTH), (1, 1)), Projector(OPS[0])
    made = add_at_once(graph, OPS[0])
    checked(graph, made, exact=False)
    assert sum(node.op == "add_n" for node in made.nodes) == 0
    assert projector.project(made).working_set <= projector.project(graph).working_set


def random_program(seed: int) -> Callable[..., Any]:
    def program(xp: Any, x: Any, w: Any) -> list[Any]:
        draw = random.Random(seed)
        made = [x, xp.exp(x)]
        for _ in range(40):
            a, b = (draw.choice(made[-draw.choice((2, 9, 60)) :]) for _ in range(2))
            kind = draw.randrange(8)
            if kind == 0:
                made.append(xp.matmul(a, w))
            elif kind == 1:
                made.append(xp.reshape(xp.reshape(a, (-1,)) * 0.5, (ROWS, WIDTH)))
            elif kind == 2:
                made.append(xp.concat([a[1:], b[:1]], 0))
            elif kind == 3:
                made.append(a - xp.sum(b, 0))
            elif kind == 4:
                made.append(xp.add_n([a, b, *(draw.choice(made) for _ in range(2))]) / 4)
            elif kind == 5:
                made.append(xp.where(a > xp.max(b, 1, keepdims=True) - 1, a, b))
            else:
                made.append(xp.tanh(a * b))
        return [xp.sum(made[-1]), made[-2], made[draw.randrange(2, 20)]]

    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    ops = OPS[seed % 2]
    graph, projector = trace(random_program(seed), (ROWS, WIDTH), (WIDTH, WIDTH)), Projector(ops)
    whole = projector.working_set(graph)
    for part in (0.8, 0.5, 0.0):
        made = rematerialize(graph, projector, int(part * whole))
        assert projector.working_set(made) <= whole
        checked(graph, made, exact=add_at_once(graph, ops) is graph)


class SumsOnce(InPlaceOps):
    """Cumulative sums may differ from run to run."""

    def repeats(self, node: Node) -> bool:
        return node.op != "cumsum"


def with_sums(xp: Any, x: Any, w: Any) -> list[Any]:
    """Each step reads a view of a sum that may not run again."""
    seen = [x]
    for k in range(STEPS):
        last = xp.tanh(xp.matmul(seen[-1], w))
        seen.append(xp.reshape(xp.cumsum(last, 0), last.shape) / ROWS if k % 8 == 7 else last)
    gradient = seen[-1]
    for one in reversed(seen[1:]):
        gradient = xp.matmul(gradient * (1 - one * one), xp.matrix_transpose(w))
    return [gradient]


def test_views_of_what_runs_once_are_not_dropped() -> None:
    ops = ContractingOps(SumsOnce())
    graph, projector = trace(with_sums, (ROWS, WIDTH), (WIDTH, WIDTH)), Projector(ops)
    budget = int(0.75 * projector.working_set(graph))
    made = rematerialize(graph, projector, budget)
    assert projector.working_set(made) <= budget
    counts = [sum(node.op == "cumsum" for node in one.nodes) for one in (graph, made)]
    assert counts[0] == counts[1]
    checked(graph, made, exact=True)


def test_what_exists_before_the_call_needs_no_room() -> None:
    def sums(xp: Any, x: Any) -> Any:
        return xp.sum(xp.reshape(x, (WIDTH, -1)), 1)

    graph, projector = trace(sums, (20 * ROWS, WIDTH)), Projector(OPS[1])
    assert can_hold(graph, projector, projector.working_set(graph))


def test_sums_of_unknown_sizes_stay() -> None:
    inputs = tuple(Tensor((None, 2_000), "float64", f"x{k}") for k in range(3))
    total = Tensor((50, 2_000), "float64", "sum")
    graph = Graph(inputs, (Node("add_n", inputs, (total,)),), (total,))
    assert add_at_once(graph, VocabularyOps()) is graph
