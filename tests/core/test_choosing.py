"""A choice computes again what it reads of an earlier choice by the same predicate."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.moves.user_loops.choosing import choose_again
from tf_exla.vocabulary.op_set import VocabularyOps

N = 40
LARGE = 8 * N * N // 2
OPS = VocabularyOps()


def program(same: bool = True, stateful: bool = False) -> Graph:
    """Return a choice that returns a sum and a matrix, and one that reads both."""

    def first(xp: Any, x: Any) -> Any:
        k = xp.one("exp", [x @ x.T], (N, N), stateful=stateful)
        return xp.sum(k, axis=1), k

    def other(xp: Any, x: Any) -> Any:
        k = x @ x.T
        return xp.sum(k, axis=0), k

    def product(xp: Any, total: Any, k: Any) -> Any:
        return k @ xp.sqrt(k * k) @ total

    def difference(xp: Any, total: Any, k: Any) -> Any:
        return xp.sum(k, axis=0) - total

    x = Tensor((N, 2), "float64", "x")
    tests = [Tensor((), "bool", name) for name in ("p", "q")]
    vector, matrix = Tensor((N,), "float64", "sum"), Tensor((N, N), "float64", "k")
    before = {
        "then_branch": trace(first, (N, 2)), "else_branch": trace(other, (N, 2))
    }  # fmt: skip
    after = {
        "then_branch": trace(product, (N,), (N, N)), "else_branch": trace(difference, (N,), (N, N))
    }  # fmt: skip
    one = Node("cond", (tests[0], x), (vector, matrix), before, name="one")
    result = Tensor((N,), "float64", "result")
    two = Node("cond", (tests[0 if same else 1], vector, matrix), (result,), after, name="two")
    return Graph((*tests, x), (one, two), (vector, result))


def test_the_matrix_is_computed_in_both() -> None:
    graph = program()
    made = choose_again(graph, OPS, LARGE)
    check_graph(made, graph)
    one, two = (node for node in made.nodes if node.op == "cond")
    assert [tensor.name for tensor in one.outputs] == ["sum"]
    assert all(tensor.nbytes <= LARGE for node in (one, two) for tensor in node.inputs)
    x = np.random.default_rng(0).standard_normal((N, 2))
    for taken in (True, False):
        given = [np.array(taken), np.array(not taken), x]
        for found, expected in zip(evaluate(made, *given), evaluate(graph, *given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_stays() -> None:
    for graph in (program(same=False), program(stateful=True)):
        assert choose_again(graph, OPS, LARGE) is graph
    graph = program()
    assert choose_again(graph, OPS, 10**9) is graph


def test_unread_results_and_operands_of_choices_go() -> None:
    graph = program()
    made = clean(graph.replace(outputs=graph.outputs[:1]), OPS)
    (node,) = made.nodes
    assert [tensor.name for tensor in node.outputs] == ["sum"]
    assert len(made.inputs) == len(graph.inputs)  # those of the program stay
    pair = clean(graph.replace(outputs=graph.outputs[1:]), OPS)
    assert len(pair.nodes) == 2


def test_two_earlier_choices() -> None:
    """The operands of the last choice move when the first of the two is computed again."""

    def choice(xp: Any, p: Any, operands: list[Any], one: Any, other: Any) -> Any:
        branches = [trace(fn, *[(N, N)] * len(operands)) for fn in (one, other)]
        names = "then_branch", "else_branch"
        return xp.one("cond", [p, *operands], (N, N), **dict(zip(names, branches, strict=True)))

    def fn(xp: Any, x: Any, y: Any, w: Any, p: Any) -> Any:
        a = choice(xp, p, [x], lambda xp, x: xp.tanh(x), lambda xp, x: xp.exp(x))
        b = choice(xp, p, [y], lambda xp, y: xp.cos(y), lambda xp, y: xp.sin(y))
        return choice(
            xp, p, [a, b, w],
            lambda xp, a, b, w: a * 100.0 + b * 10.0 + w, lambda xp, a, b, w: a + b - w,
        )  # fmt: skip

    values = [*np.random.default_rng(0).standard_normal((3, N, N)), np.array(True)]
    graph = trace(fn, *values)
    made = choose_again(graph, OPS, LARGE)
    check_graph(made, graph)
    assert sum(node.op == "cond" for node in made.nodes) == 1
    for taken in (True, False):
        values[-1] = np.array(taken)
        np.testing.assert_allclose(
            evaluate(made, *values)[0], evaluate(graph, *values)[0], rtol=1e-12
        )
