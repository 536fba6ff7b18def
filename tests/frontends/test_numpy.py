"""The NumPy backend: each op against TensorFlow's kernel, programs whole and split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import programs
import pytest
import tensorflow as tf
from frontends.run_node import run_op
from frontends.test_op_rules import CASES, build

import tf_exla
from tf_exla.frontends.numpy import evaluate
from tf_exla.frontends.numpy.kernels import KERNELS
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.graph import Array, Graph, Node
from tf_exla.ir.traverse import walk
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph

OPS = TensorFlowOps(threads=2, device="CPU")
OPTIONS = Options(chunk_bytes=1 << 20, body_bytes=1 << 20, cores=2)
KNOWN = [case for case in CASES if graph_name(case.op, "float64") in KERNELS]


@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_kernels_agree_with_tensorflow(case: Any) -> None:
    node, values, expected = build(case)
    try:
        found = evaluate(Graph(node.inputs, (node,), node.outputs), *values)
    except NotImplementedError as refusal:
        pytest.skip(str(refusal))
    for one, other in zip(found, expected, strict=True):
        close = 1e-6 if other.dtype.itemsize == 4 else 1e-9
        np.testing.assert_allclose(one, other, rtol=close, atol=close)


class _Eager(dict[str, Any]):
    """Kernels of all other ops: TensorFlow's, eagerly."""

    def __contains__(self, op: object) -> bool:
        return op not in KERNELS

    def __missing__(self, op: str) -> Callable[[Node, list[Array]], list[Array]]:
        return lambda node, operands: run_op(op, operands, node.attrs)


PROGRAMS = ("K(X, X) v", "kNN L1", "causal attention and gradients", "conjugate gradients")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_split_program_means_what_the_program_does(name: str) -> None:
    function, arguments = programs.ALL[name].make()
    stock = tf.function(function, autograph=False)
    concrete = stock.get_concrete_function(*arguments)
    captured = capture(concrete)
    values = [one.numpy() for one in (*tf.nest.flatten(arguments), *captured.constants)]
    expected = [one.numpy() for one in tf.nest.flatten(stock(*arguments))]
    before = tf_exla.explain(function, *arguments, limit=10**12).projected_peak_before
    plan = optimize_graph(captured.graph, OPS, limit=before // 5, options=OPTIONS)
    assert any(type(node).__name__ == "Loop" for node in walk(plan.graph))
    for graph in (captured.graph, plan.graph):
        found = evaluate(graph, *values, kernels=_Eager())
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
