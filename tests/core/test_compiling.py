"""Clusters: what is in them, and what stays outside."""

from __future__ import annotations

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy.trace import Array, Tracer
from tf_exla.ir.graph import Graph, Loop, LoopResult, Tensor
from tf_exla.late.compiling import compile_loops

OPS = InPlaceOps()


def compiled(xp: Tracer, *outputs: Array) -> list[tuple[str, list[str]]]:
    """Return the ops of a loop's body after compiling, and those in each cluster."""
    body = xp.graph(*outputs)
    whole = tuple(Tensor(t.shape, t.dtype) for t in body.inputs)
    made = tuple(Tensor(t.shape, t.dtype) for t in body.outputs)
    loop = Loop(
        "loop",
        whole,
        made,
        extent=4,
        chunk=4,
        body=body,
        slots=(None,) * len(whole),
        results=(LoopResult("add"),) * len(outputs),
    )
    (node,) = compile_loops(Graph(whole, (loop,), made), OPS, forced=True).nodes
    assert isinstance(node, Loop)
    return [
        (one.op, [inner.op for _, sub in one.subgraphs for inner in sub.nodes])
        for one in node.body.nodes
    ]


def test_an_alias_of_a_result_follows_the_cluster() -> None:
    xp = Tracer()
    y = xp.exp(xp.input((8,)))
    made = compiled(xp, y, xp.reshape(y, (8, 1)))
    assert made == [("constant", []), ("xla_cluster", ["exp"]), ("reshape", [])]


def test_an_alias_alone_is_the_result() -> None:
    xp = Tracer()
    column = xp.reshape(xp.exp(xp.input((8,))), (8, 1))
    assert compiled(xp, column) == [("xla_cluster", ["exp", "constant", "reshape"])]


def test_an_alias_that_the_cluster_reads_stays() -> None:
    xp = Tracer()
    y = xp.exp(xp.input((8,)))
    column = xp.reshape(y, (8, 1))
    made = compiled(xp, y, column, xp.exp(column))
    assert made == [("xla_cluster", ["exp", "constant", "reshape", "exp"])]
