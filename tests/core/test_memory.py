"""Projection: lifetimes, aliases, forwarding, loops."""

from __future__ import annotations

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy.trace import Array, Tracer, trace
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph

KB8 = 8 * 1024  # a vector of 1024 float64


def working_set(xp: Tracer, *outputs: Array) -> int:
    return Projector(InPlaceOps()).project(xp.graph(*outputs)).working_set


def test_a_tensor_lives_until_its_last_reader() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    first = x + x
    third = first + x + x
    assert working_set(xp, third) == 2 * KB8
    first * third
    assert working_set(xp, first * third) == 3 * KB8


def test_outputs_live_to_the_end_and_inputs_are_resident() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    outputs = [x + x for _ in range(5)]
    assert working_set(xp, *outputs) == 5 * KB8
    assert resident_bytes(xp.graph(*outputs)) == KB8


def test_results_of_a_program_that_xla_compiles_exist_from_the_start() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    graph = xp.graph(xp.sum(xp.exp(x * x)), x + x)
    assert Projector(InPlaceOps()).project(graph).working_set == KB8 + 8
    first = graph.replace(results_first=True)
    assert Projector(InPlaceOps()).project(first).working_set == 2 * KB8 + 8


def test_a_while_computes_its_result_in_the_buffer_of_the_initial_value() -> None:
    class Overwriting(InPlaceOps):
        def overwrites_variables(self) -> bool:
            return True

    xp = Tracer()
    x = xp.input((1024,))
    body = trace(lambda xp, number, value: (number, value * value), (), (1024,))
    cond = trace(lambda xp, number, value: number > 0, (), (1024,))
    inputs = (xp.input(()).tensor, (x + x).tensor)
    outputs = tuple(Tensor(one.shape, one.dtype, "result") for one in inputs)
    nodes = (*xp.nodes, Node("while", inputs, outputs, {"body": body, "cond": cond}))
    graph = Graph((x.tensor, inputs[0]), nodes, outputs[1:], results_first=True)
    assert Projector(Overwriting()).project(graph).working_set <= 2 * KB8 + 100


def test_a_dying_input_is_overwritten_only_where_nobody_else_holds_it() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    y = x + x
    z = xp.exp(y)
    assert working_set(xp, z) == KB8
    assert working_set(xp, z, y) == 2 * KB8
    xp = Tracer()
    assert working_set(xp, xp.exp(xp.input((1024,)))) == KB8  # the caller holds the input


def test_an_alias_takes_no_memory_and_keeps_its_buffer_alive() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    y = x + x
    column = xp.expand_dims(y, 1)
    z = xp.exp(y)  # not in place: the column still reads the buffer
    assert working_set(xp, z, column) == 2 * KB8


def test_small_tensors_count_for_the_whole_run() -> None:
    xp = Tracer()
    total = x = xp.input((10,))
    for _ in range(7):
        total = total + x
    assert working_set(xp, total) == 7 * 80


def test_a_constant_is_resident() -> None:
    xp = Tracer()
    out = xp.input((1024,)) + np.ones(1024)
    assert working_set(xp, out) == KB8
    assert resident_bytes(xp.graph(out)) == 2 * KB8


@pytest.mark.parametrize("cores", [1, 2])
def test_a_loop_counts_every_iteration_in_flight(cores: int) -> None:
    graph = trace(lambda xp, x, y, v: xp.exp(x @ y) @ v, (4000, 3), (3, 2000), (2000, 1))
    options = Options(cores=cores, jit_compile=False)
    plan = optimize_graph(graph, InPlaceOps(), limit=10**7, options=options)
    (loop,) = (node for node in plan.graph.nodes if isinstance(node, Loop))
    projector = Projector(InPlaceOps())
    body = projector.project_body(loop, loop.body).working_set
    # a slice of x, one buffer for the product and its exponential, the result
    slice_bytes = 0 if loop.chunk * 24 < 4096 else loop.chunk * 24
    assert body >= loop.chunk * 2000 * 8 + slice_bytes
    assert body <= loop.chunk * 2000 * 8 + loop.chunk * 40 + 4096
    assert (loop.parallel > 1) == (cores > 1)
    assert projector.temporary(loop) == loop.parallel * body
    assert plan.projection.working_set <= 10**7


def test_a_cluster_is_fused_through_aliases_and_each_result_has_a_buffer() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    first = xp.exp(xp.expand_dims(xp.exp(x), 1))
    second = xp.exp(first)
    assert Projector(InPlaceOps()).temporary(_cluster(xp, second)) == KB8 // 4  # the allowance
    again = xp.expand_dims(second, 2)
    assert Projector(InPlaceOps()).temporary(_cluster(xp, second, again)) == KB8 // 2


def _cluster(xp: Tracer, *outputs: Array) -> Node:
    graph = xp.graph(*outputs)
    made = tuple(Tensor(t.shape, t.dtype, t.name) for t in graph.outputs)
    return Node("xla_cluster", graph.inputs, made, {"cluster": graph})
