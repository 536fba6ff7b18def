"""Projection: lifetimes, aliases, forwarding, loops."""

from __future__ import annotations

import numpy as np
import pytest

from core.toy import Builder, ToyOps
from tf_exla.ir.graph import Loop, Node, Tensor
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph

KB8 = 8 * 1024  # a vector of 1024 float64


def working_set(builder: Builder, *outputs: object) -> int:
    return Projector(ToyOps()).project(builder.graph(*outputs)).working_set  # type: ignore[arg-type]


def test_a_tensor_lives_until_its_last_reader() -> None:
    b = Builder()
    x = b.input(1024)
    first = b.op("add", x, x)
    second = b.op("add", first, x)
    third = b.op("add", second, x)
    assert working_set(b, third) == 2 * KB8
    b.op("multiply", first, third)
    assert working_set(b, b.op("multiply", first, third)) == 3 * KB8


def test_outputs_live_to_the_end_and_inputs_are_resident() -> None:
    b = Builder()
    x = b.input(1024)
    outputs = [b.op("add", x, x) for _ in range(5)]
    assert working_set(b, *outputs) == 5 * KB8
    assert resident_bytes(b.graph(*outputs)) == KB8


def test_a_dying_input_is_overwritten_only_where_nobody_else_holds_it() -> None:
    b = Builder()
    x = b.input(1024)
    y = b.op("add", x, x)
    z = b.op("exp", y)
    assert working_set(b, z) == KB8
    assert working_set(b, z, y) == 2 * KB8
    b = Builder()
    assert working_set(b, b.op("exp", b.input(1024))) == KB8  # the caller holds the input


def test_an_alias_takes_no_memory_and_keeps_its_buffer_alive() -> None:
    b = Builder()
    x = b.input(1024)
    y = b.op("add", x, x)
    column = b.op("Column", y)
    z = b.op("exp", y)  # not in place: the column still reads the buffer
    assert working_set(b, z, column) == 2 * KB8


def test_small_tensors_count_for_the_whole_run() -> None:
    b = Builder()
    x = b.input(10)
    total = x
    for _ in range(7):
        total = b.op("add", total, x)
    assert working_set(b, total) == 7 * 80


def test_a_constant_is_resident() -> None:
    b = Builder()
    x = b.input(1024)
    c = b.const(np.ones(1024))
    out = b.op("add", x, c)
    assert working_set(b, out) == KB8
    assert resident_bytes(b.graph(out)) == 2 * KB8


@pytest.mark.parametrize("cores", [1, 2])
def test_a_loop_counts_every_iteration_in_flight(cores: int) -> None:
    b = Builder()
    x, y, v = b.input(4000, 3), b.input(3, 2000), b.input(2000, 1)
    graph = b.graph(b.op("matmul", b.op("exp", b.op("matmul", x, y)), v))
    options = Options(cores=cores, jit_compile=False)
    plan = optimize_graph(graph, ToyOps(), limit=10**7, options=options)
    (loop,) = (node for node in plan.graph.nodes if isinstance(node, Loop))
    projector = Projector(ToyOps())
    body = projector.project_body(loop, loop.body).working_set
    # a slice of x, one buffer for the product and its exponential, the result
    slice_bytes = 0 if loop.chunk * 24 < 4096 else loop.chunk * 24
    assert body >= loop.chunk * 2000 * 8 + slice_bytes
    assert body <= loop.chunk * 2000 * 8 + loop.chunk * 40 + 4096
    assert (loop.parallel > 1) == (cores > 1)
    assert projector.temporary(loop) == loop.parallel * body
    assert plan.projection.working_set <= 10**7


def test_a_cluster_is_fused_through_aliases_and_each_result_has_a_buffer() -> None:
    b = Builder()
    x = b.input(1024)
    first = b.op("exp", b.op("Column", b.op("exp", x)))
    second = b.op("exp", first)
    assert Projector(ToyOps()).temporary(_cluster(b, second)) == KB8 // 4  # the allowance
    again = b.op("Column", second)
    assert Projector(ToyOps()).temporary(_cluster(b, second, again)) == KB8 // 2


def _cluster(b: Builder, *outputs: Tensor) -> Node:
    graph = b.graph(*outputs)
    made = tuple(Tensor(t.shape, t.dtype, t.name) for t in outputs)
    return Node("xla_cluster", graph.inputs, made, {"cluster": graph})
