"""Graphs as JAX functions: each op against its meaning, programs whole and split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import programs
import pytest
import tensorflow as tf
from frontends.test_op_rules import CASES, build
from jax_x64 import enable_x64

import tf_exla
from tf_exla.frontends.jax.restore import restore
from tf_exla.frontends.jax.restore.emit import EMIT
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.graph import Graph, const
from tf_exla.ir.traverse import walk
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph

OPS = TensorFlowOps(threads=2, device="CPU")
OPTIONS = Options(chunk_bytes=1 << 20, body_bytes=1 << 20, cores=2, jit_compile=False)


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "case", [case for case in CASES if graph_name(case.op, "float64") in EMIT], ids=str
)
def test_an_op_means_what_it_does_elsewhere(case: Any) -> None:
    node, values, expected = build(case)
    try:
        found = restore(Graph(node.inputs, (node,), node.outputs))(*values)
    except NotImplementedError as refusal:
        pytest.skip(str(refusal))
    for one, other in zip(found, expected, strict=True):
        close = 1e-6 if other.dtype.itemsize == 4 else 1e-9
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=close, atol=close)


PROGRAMS = (
    "K(X, X) v", "kNN L1", "causal attention and gradients", "conjugate gradients",
)  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_split_program_means_what_the_program_does(name: str) -> None:
    function, arguments = programs.ALL[name].make()
    stock = tf.function(function, autograph=False)
    captured = capture(stock.get_concrete_function(*arguments))
    values = [one.numpy() for one in (*tf.nest.flatten(arguments), *captured.constants)]
    expected = [one.numpy() for one in tf.nest.flatten(stock(*arguments))]
    before = tf_exla.explain(function, *arguments, limit=10**12).projected_peak_before
    plan = optimize_graph(captured.graph, OPS, limit=before // 5, options=OPTIONS)
    assert any(type(node).__name__ == "Loop" for node in walk(plan.graph))
    for graph in (captured.graph, plan.graph):
        found = jax.jit(restore(graph))(*values)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_what_jax_would_round_is_refused() -> None:
    node = const(np.ones(3), "ones")
    with enable_x64(False), pytest.raises(TypeError, match="jax_enable_x64"):
        restore(Graph((), (node,), node.outputs))()
