"""Contractions: what becomes one, its axis rule, numbers, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.rewritten import OPS, check_numbers, only, random, rewritten
from core.test_small_axes import PROGRAMS, SMALL, gaps
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.contraction import contraction_of
from tf_exla.ir.graph import Node, SplitAxis
from tf_exla.split.loops.resize import cut

N, M, D = 301, 203, 101
NAMES = (
    "L1", "L1 of columns", "L1, kept", "L2", "weighted", "mean", "norm", "Chebyshev", "least",
    "all", "any", "Canberra", "where",
)  # fmt: skip


def contractions(outcome: Any) -> list[Node]:
    return [node for node in outcome.result.graph.nodes if contraction_of(node)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_numbers(name: str, dtype: str) -> None:
    args = random(N, D, dtype=dtype), random(M, D, dtype=dtype)
    outcome = check_numbers(PROGRAMS[name], *args, families=SMALL)
    assert len(contractions(outcome)) == 1, outcome.reasons
    assert outcome.largest <= max(N * M, D * N)


def test_batches_integers_and_what_is_no_number() -> None:
    outcome = check_numbers(PROGRAMS["L1"], random(3, N, D), random(3, M, D), families=SMALL)
    assert rule(outcome).text == "n0 n1 1 N2, n0 1 n3 N2 -> n0 n1 n3"
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-99, 99, (n, D)).astype("int32") for n in (N, M))
    assert contractions(check_numbers(PROGRAMS["Chebyshev"], x, y, families=SMALL))
    x, y = random(N, D), random(M, D)
    x[3, 2], y[5, 1], y[7] = np.nan, np.inf, -np.inf
    for name in ("L1", "Chebyshev", "least"):
        assert contractions(check_numbers(PROGRAMS[name], x, y, families=SMALL))


def rule(outcome: Any) -> AxisRule:
    (node,) = contractions(outcome)
    found = OPS.rule(node)
    assert isinstance(found, AxisRule)
    return found


def test_the_rule_is_that_of_a_product() -> None:
    assert rule(rewritten(PROGRAMS["L1"], random(N, D), random(M, D), families=SMALL)).text == (
        "n0 1 N1, 1 n2 N1 -> n0 n2"
    )


def test_what_is_reduced_on_the_way_is_needed_whole() -> None:
    def program(xp: Any, x: Any, y: Any, z: Any) -> Any:
        wide = xp.abs(x[:, None, None] - y[None, :, None] * z)  # [40, 30, 70, D]
        return xp.sum(xp.exp(-xp.sum(wide, 2)), -1)

    args = random(40, D), random(30, D), random(70, D)
    assert rule(check_numbers(program, *args, families=SMALL)).text == (
        "1 n0 1 N1, N2 N1, n3 1 1 N1 -> n3 n0"
    )


@pytest.mark.parametrize("sizes", [(1, 1), (1, 7), (40, 1), (40, 7)])
def test_chunks(sizes: tuple[int, int]) -> None:
    outcome = rewritten(PROGRAMS["weighted"], random(N, D), random(M, D), families=SMALL)
    (node,) = contractions(outcome)
    bound = rule(outcome)
    graph = outcome.result.graph.replace(inputs=node.inputs, nodes=(node,), outputs=node.outputs)
    for axis, size in enumerate(sizes):
        label = bound.results[0][axis]
        assert label is not None
        slots = {}
        for position, tensor in enumerate(graph.inputs):
            found = bound.operand_axis(position, label.label)
            if found is not None:
                slots[tensor] = SplitAxis(found[0])
        slots[graph.outputs[0]] = SplitAxis(axis)
        graph = cut(OPS, graph, slots, size)
    assert graph.outputs[0].dims == sizes


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda xp, x, y: (xp.sum(g := xp.abs(gaps(x, y)), -1), g[0]), "sliced"),
        (lambda xp, x, y: (xp.sum(g := gaps(x, y), -1), xp.max(g, -1)), "nodes"),
        (lambda xp, x, y: xp.sum(xp.abs(gaps(x, y)), (0, 2)), "not large"),
    ],
)
def test_refuses(fn: Any, reason: str) -> None:
    outcome = check_numbers(fn, random(N, D), random(M, D), families=SMALL)
    assert not contractions(outcome)
    assert reason in outcome.reasons or reason == "sliced"


def test_halves_stay() -> None:
    outcome = rewritten(
        PROGRAMS["L1"], random(N, D, dtype="float16"), random(M, D, dtype="float16"), families=SMALL
    )
    assert not contractions(outcome)
    assert "rounded" in outcome.reasons


def test_switched_off() -> None:
    off = only("cleanup")
    assert not contractions(rewritten(PROGRAMS["L1"], random(N, D), random(M, D), families=off))
