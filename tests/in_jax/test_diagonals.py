"""Numbers added to a diagonal: no sum over rows, and the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_captured import kernel
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.frontends.jax.diagonals import in_one_pass
from tf_exla.frontends.jax.restore import restore
from tf_exla.frontends.numpy.trace import trace
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.traverse import walk

X = Any
N = 700


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def _added(x: X, d: X) -> X:
    return (kernel(x, x) + jnp.diag(d)) @ x


def _subtracted(x: X, d: X) -> X:
    return (kernel(x, x) - 3 * jnp.diag(d)) @ x


def _in_a_loop(x: X, d: X) -> X:
    noisy = kernel(x, x) + jnp.diag(d)
    return jax.scipy.sparse.linalg.cg(lambda v: noisy @ v, x[:, 0], maxiter=3)[0]


@pytest.mark.parametrize("function", [_added, _subtracted, _in_a_loop])
def test_a_plan_reads_no_diagonal(function: Any) -> None:
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(N, 3)), rng.uniform(1, 2, N)
    call = tf_exla.jax.jit(function, "1GB").call(x, d)
    plan = call.program.plan_within(2_000_000)
    made = in_one_pass(plan.graph)
    assert "sum" in _ops_of_loops(plan.graph)
    assert "sum" not in _ops_of_loops(made)
    (found,) = jax.jit(restore(plan.graph))(x, d, *call.program.constants)
    np.testing.assert_allclose(found, jax.jit(function)(x, d), rtol=1e-9)


def _ops_of_loops(graph: Graph) -> set[str]:
    loops = [node for node in walk(graph) if isinstance(node, Loop)]
    assert loops
    return {node.op for loop in loops for node in loop.body.nodes}


def _masked(xp: X, x: X, d: X, columns: X) -> X:
    mask = xp.reshape(xp.arange(4), (4, 1)) == xp.reshape(columns, (1, 4))
    total = xp.sum(xp.where(mask, x, xp.asarray(np.zeros(()))), axis=-1) + d
    return xp.where(mask, xp.reshape(total, (4, 1)), x)


@pytest.mark.parametrize(
    ("columns", "changed"),
    [((0, 1, 2, 3), True), ((3, 1, 0, 2), True), ((7, 1, 0, 2), True), ((1, 1, 0, 2), False)],
)
def test_a_row_with_two_chosen_elements_is_summed(columns: Any, changed: bool) -> None:
    x = np.array([[1.0, np.nan, 3, 4], [5, np.inf, 7, 8], [9, 1, -np.inf, 2], [3, 4, 5, 6]])
    d = np.array([10.0, 20, 30, 40])
    graph = trace(lambda xp, x, d: _masked(xp, x, d, xp.asarray(np.array(columns))), x, d)
    made = in_one_pass(graph)
    assert (made is not graph) == changed
    mask = np.arange(4)[:, None] == np.array(columns)
    expected = np.where(mask, (np.where(mask, x, 0).sum(-1) + d)[:, None], x)
    np.testing.assert_array_equal(restore(graph)(x, d)[0], expected)
