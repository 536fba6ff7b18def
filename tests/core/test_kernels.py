"""A kernel with much scratch memory works in parts; what it reads and makes stays whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.graph import Node
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.split.candidates import _alone
from tf_exla.split.def_use import DefUse
from tf_exla.vocabulary.op_set import VocabularyOps

ROWS, WIDTH = 1201, 24


class PackingOps(VocabularyOps):
    """Products pack their operand: a kernel of convolutions needs as much for its windows."""

    def scratch(self, node: Node, compiled: bool = False) -> int:
        return 20 * node.inputs[0].nbytes if node.op == "matmul" else 0


def centred_layers(xp: Any, x: Any, *weights: Any) -> Any:
    """Each layer needs the mean over all rows of the one before."""
    for one in weights:
        y = xp.matmul(x, one)
        x = xp.tanh(y - xp.mean(y, 0, keepdims=True)) + x
    return x


SHAPES = [(ROWS, WIDTH), *([(WIDTH, WIDTH)] * 6)]


def test_only_the_kernel_is_split() -> None:
    graph, projector = trace(centred_layers, *SHAPES), Projector(PackingOps())
    regions = [one for _, one in _alone(projector, DefUse(graph, PackingOps()))]
    peak = projector.project(graph).peak_node
    assert peak is not None
    assert peak.op == "matmul"
    assert regions
    assert all({*one.members} == {peak} for one in regions)
    plain = VocabularyOps()  # its kernels need no memory
    assert not list(_alone(Projector(plain), DefUse(graph, plain)))


def test_numbers_and_limit() -> None:
    graph = trace(centred_layers, *SHAPES)
    values = [np.random.default_rng(k).standard_normal(one) for k, one in enumerate(SHAPES)]
    want = evaluate(graph, *values)[0]
    for part in (1.5, 2, 3):
        limit = resident_bytes(graph) + int(Projector(PackingOps()).working_set(graph) / part)
        plan = optimize_graph(graph, PackingOps(), limit=limit, options=Options(cores=2))
        assert plan.resident + plan.working_set <= limit
        np.testing.assert_allclose(evaluate(plan.graph, *values)[0], want, rtol=1e-10, atol=1e-10)
