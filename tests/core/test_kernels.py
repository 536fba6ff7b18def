"""A kernel with much scratch memory works in parts; what it reads and makes stays whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.graph import Loop, Node
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.split.kernels import KernelsInParts, kernel_regions, split_kernels
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.search import search_context
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
    context = search_context(projector, 0, Options())
    regions = [one for _, one in kernel_regions(context, DefUse(graph, PackingOps()))]
    peak = projector.project(graph).peak_node
    assert peak is not None
    assert peak.op == "matmul"
    assert regions
    assert all({*one.members} == {peak} for one in regions)
    plain = VocabularyOps()  # its kernels need no memory
    context = search_context(Projector(plain), 0, Options())
    assert not list(kernel_regions(context, DefUse(graph, plain)))


def test_all_kernels_at_the_peak_work_in_parts() -> None:
    graph, projector = trace(centred_layers, *SHAPES), Projector(PackingOps())
    in_parts = KernelsInParts(PackingOps())
    budget = int(1.2 * in_parts.working_set(graph))
    assert budget < projector.working_set(graph)
    made = split_kernels(search_context(projector, budget, Options(cores=1)), graph)
    assert projector.working_set(made) <= budget
    loops = [node for node in made.nodes if isinstance(node, Loop)]
    assert len(loops) == sum(node.op == "matmul" for node in graph.nodes)
    assert all([one.op for one in loop.template.nodes].count("matmul") == 1 for loop in loops)


def test_kernels_without_scratch_memory_are_whole() -> None:
    graph, ops = trace(centred_layers, *SHAPES), VocabularyOps()
    assert KernelsInParts(ops).working_set(graph) == Projector(ops).working_set(graph)
    assert not any(map(KernelsInParts(ops).reduces, graph.nodes))


def test_numbers_and_limit() -> None:
    graph = trace(centred_layers, *SHAPES)
    values = [np.random.default_rng(k).standard_normal(one) for k, one in enumerate(SHAPES)]
    want = evaluate(graph, *values)[0]
    for part in (1.5, 2, 3):
        limit = resident_bytes(graph) + int(Projector(PackingOps()).working_set(graph) / part)
        plan = optimize_graph(graph, PackingOps(), limit=limit, options=Options(cores=2))
        assert plan.resident + plan.working_set <= limit
        np.testing.assert_allclose(evaluate(plan.graph, *values)[0], want, rtol=1e-10, atol=1e-10)


def test_an_empty_kernel_has_no_parts() -> None:
    graph = trace(lambda xp, x, y: xp.matmul(x, y), (0, 0), (0, 0))

    class Reserving(VocabularyOps):
        def scratch(self, node: Node, compiled: bool = False) -> int:
            return 1000

    assert KernelsInParts(Reserving()).working_set(graph) <= Projector(Reserving()).working_set(
        graph
    )
