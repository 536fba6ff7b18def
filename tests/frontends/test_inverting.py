"""Solves of many columns as products with an inverse that loops do not compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.frontends.tf.restore.whole import WHOLE_OPS
from tf_exla.ir.builder import make_node
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Loop, LoopResult, SplitAxis, Tensor
from tf_exla.late.inverting import invert
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph

Z = np.random.default_rng(0).normal(size=(40, 2))
X = np.random.default_rng(1).normal(size=(5003, 2))


def kernel(a: Any, b: Any) -> Any:
    return tf.exp(-0.5 * tf.reduce_sum(tf.square(a[:, None] - b[None]), -1))


FACTOR = np.linalg.cholesky(kernel(Z, Z).numpy() + 1e-6 * np.eye(40))


def solves(graph: Graph, depth: int = 0) -> list[tuple[int, int]]:
    """Return the depth in loops and the columns of all solves."""
    found = []
    for node in graph.nodes:
        if isinstance(node, Loop):
            found += [one for _, body in node.subgraphs for one in solves(body, depth + 1)]
        elif node.op == "solve_triangular":
            found.append((depth, node.output.dims[-1]))
    return found


def planned(function: Any, limit: int, *arrays: Any) -> tuple[Graph, list[Any], list[Any]]:
    """Return the plan, what it is called with, and the program's results."""
    arguments = [tf.constant(one) for one in arrays]
    captured = capture(tf.function(function).get_concrete_function(*arguments))
    options = Options(jit_compile=False)
    plan = optimize_graph(captured.graph, TensorFlowOps(), limit=limit, options=options)
    return plan.graph, [*arguments, *captured.constants], tf.nest.flatten(function(*arguments))


def projected(factor: tf.Tensor, z: tf.Tensor, x: tf.Tensor) -> Any:
    """Return A Aᵀ for A = L⁻¹ K, and a gradient that solves with the transposed factor."""
    with tf.GradientTape() as tape:
        tape.watch(z)
        a = tf.linalg.triangular_solve(factor, kernel(z, x))
        value = tf.reduce_sum(tf.sin(a @ tf.transpose(a)))
    return value, tape.gradient(value, z)


@pytest.mark.parametrize("limit", [1_400_000, 2_500_000, 10**9])
def test_loops_read_the_inverses(limit: int) -> None:
    graph, operands, expected = planned(projected, limit, FACTOR, Z, X)
    assert any(isinstance(node, Loop) for node in graph.nodes) == (limit < 10**9)
    made = invert(graph, WHOLE_OPS)
    check_graph(made, graph)
    assert sorted(solves(made)) == [(0, 40), (0, 40)]
    assert max(depth for depth, _ in solves(graph)) == (limit < 10**9)
    for found, one in zip(restore(made)(operands), expected, strict=True):
        np.testing.assert_allclose(found, one, 1e-8, 1e-8 * np.abs(one).max())


def test_a_factor_that_a_loop_computes() -> None:
    """Each chunk of a batch has its own factors, which are no single matrix; so they stay."""

    def function(factors: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.linalg.triangular_solve(factors, x) ** 2, [1, 2])

    factors = np.tile(FACTOR, (6, 1, 1))
    right = np.random.default_rng(2).normal(size=(6, 40, 900))
    graph, _, _ = planned(function, 4_500_000, factors, right)
    assert invert(graph, WHOLE_OPS) is graph


def test_few_columns_and_other_dtypes_stay() -> None:
    def solve(factor: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.linalg.triangular_solve(factor, x)

    right = np.ones((40, 700))
    assert invert(planned(solve, 10**9, FACTOR, right)[0], WHOLE_OPS) is not None
    for factor, x in (
        (FACTOR, right[:, :600]),
        (FACTOR.astype("f4"), right.astype("f4")),
        (FACTOR.astype(complex), right.astype(complex)),
    ):
        graph = planned(solve, 10**9, factor, x)[0]
        assert invert(graph, WHOLE_OPS) is graph


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_the_error_is_that_of_the_solve(lower: bool, adjoint: bool) -> None:
    """A kernel matrix with a condition of 1e8: its factor has 1e4."""
    factor = FACTOR if lower else FACTOR.T.copy()

    def solve(factor: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.linalg.triangular_solve(factor, right, lower=lower, adjoint=adjoint)

    right = kernel(Z, X[:701]).numpy()
    graph, operands, expected = planned(solve, 10**9, factor, right)
    made = invert(graph, WHOLE_OPS)
    assert any(node.op == "matmul" for node in made.nodes)
    found = restore(made)(operands)[0]
    exact = (factor.T if adjoint else factor).astype(np.longdouble)
    wanted = np.zeros(right.shape, np.longdouble)
    for i in range(40) if lower != adjoint else range(39, -1, -1):  # substitution, more digits
        wanted[i] = (right[i] - exact[i] @ wanted) / exact[i, i]
    assert np.abs(found - wanted).max() < 4 * np.abs(expected[0] - wanted).max()


def test_a_factor_of_each_iteration() -> None:
    """A matrix that the body of a loop computes is inverted there, if one iteration has enough."""
    factor = Tensor((40, 40), "float64", "factor")
    scale = Tensor((6,), "float64", "scale")
    for columns, products in ((900, 1), (300, 0)):
        right = Tensor((40, columns), "float64", "right")
        part = Tensor((1,), "float64", "part")
        shared, given = factor.fresh_copy(), right.fresh_copy()
        own = make_node(WHOLE_OPS, "multiply", (shared, part), {}, "own")
        solve = make_node(WHOLE_OPS, "solve_triangular", (own.output, given), {}, "solve")
        body = Graph((shared, part, given), (own, solve), solve.outputs)
        loop = Loop(
            "loop", (factor, scale, right), (right.fresh_copy(),), name="loop", extent=6, chunk=1,
            body=body, slots=(None, SplitAxis(0), None), results=(LoopResult("add"),),
        )  # fmt: skip
        graph = Graph((factor, scale, right), (loop,), loop.outputs)
        made = invert(graph, WHOLE_OPS)
        found = [node.op for one in made.nodes if isinstance(one, Loop) for node in one.body.nodes]
        assert found.count("matmul") == products
        assert "solve_triangular" not in [node.op for node in made.nodes]
