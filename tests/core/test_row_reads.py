"""Whiles compute rows when they read them: order of variables, axes counted from the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.traverse import walk
from tf_exla.model.projection import Projector
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.moves.user_loops.row_reads import read_rows
from tf_exla.vocabulary.op_set import VocabularyOps

N, M = 2000, 20
OPS = ContractingOps(VocabularyOps())


def repeat(xp: Any, step: Callable[..., Any], *operands: Any) -> Any:
    """Repeat `v = step(i, *operands, v)`; the operands are variables that do not change."""

    def body(xp: Any, i: Any, *rest: Any) -> list[Any]:
        return [i + np.int32(1), *rest[:-1], step(xp, i, *rest)]

    start = [np.int32(0), *operands, xp.zeros((M,)) + 1.0]
    return xp.while_loop(lambda xp, i, *rest: xp.less(i, np.int32(M)), body, start)[-1]


def same_numbers(fn: Callable[..., Any], gone: str) -> None:
    graph = trace(fn, (N, 3), (3, M))
    for block in (0, 10_000):
        made = read_rows(graph, Projector(OPS), 0, 10 * block, block)
        check_graph(made, graph)
        assert not any(node.op == gone and node.output.dims == (N, M) for node in walk(made))
        values = [np.random.default_rng(0).standard_normal(x.dims) for x in graph.inputs]
        found, expected = evaluate(made, *values)[0], evaluate(graph, *values)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("swapped", [False, True])
def test_one_variable_has_the_index_of_another(swapped: bool) -> None:
    def step(xp: Any, i: Any, a: Any, b: Any, v: Any) -> Any:
        index, whole = (a, b) if swapped else (b, a)
        return v + xp.tanh(xp.take(whole, xp.take(index, i, 0), 0) * v)

    def fn(xp: Any, x: Any, y: Any) -> Any:
        k = x @ y
        index, whole = xp.astype(xp.argmin(k, 1), "int32"), xp.tanh(k)
        return repeat(xp, step, *((index, whole) if swapped else (whole, index)))

    same_numbers(fn, "tanh")


def test_an_axis_counted_from_the_end() -> None:
    def fn(xp: Any, x: Any, y: Any) -> Any:
        whole = xp.exp(x @ y)[0:N]
        return repeat(xp, lambda xp, i, d, v: v + xp.sum(xp.take(d, i, -1)) * v * 1e-3, whole)

    same_numbers(fn, "exp")
