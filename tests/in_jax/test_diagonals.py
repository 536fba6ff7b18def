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
from tf_exla.frontends.jax.restore import restore
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
    assert "sum" not in _ops_of_loops(plan.graph)
    (found,) = jax.jit(restore(plan.graph))(x, d, *call.program.constants)
    np.testing.assert_allclose(found, jax.jit(function)(x, d), rtol=1e-9)


def _ops_of_loops(graph: Graph) -> set[str]:
    loops = [node for node in walk(graph) if isinstance(node, Loop)]
    assert loops
    return {node.op for loop in loops for node in loop.body.nodes}
