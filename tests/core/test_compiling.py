"""Clusters: what is in them, and what stays outside."""

from __future__ import annotations

from core.toy import Builder, ToyOps
from tf_exla.ir.graph import Graph, Loop, LoopResult, Tensor
from tf_exla.late.compiling import compile_loops

OPS = ToyOps()


def compiled(b: Builder, *outputs: Tensor) -> list[tuple[str, list[str]]]:
    """Return the ops of a loop's body after compiling, and those in each cluster."""
    body = b.graph(*outputs)
    whole = tuple(Tensor(t.shape, t.dtype) for t in body.inputs)
    made = tuple(Tensor(t.shape, t.dtype) for t in outputs)
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
    b = Builder()
    y = b.op("exp", b.input(8))
    assert compiled(b, y, b.op("Column", y)) == [("xla_cluster", ["exp"]), ("Column", [])]


def test_an_alias_alone_is_the_result() -> None:
    b = Builder()
    column = b.op("Column", b.op("exp", b.input(8)))
    assert compiled(b, column) == [("xla_cluster", ["exp", "Column"])]


def test_an_alias_that_the_cluster_reads_stays() -> None:
    b = Builder()
    y = b.op("exp", b.input(8))
    column = b.op("Column", y)
    made = compiled(b, y, column, b.op("exp", column))
    assert made == [("xla_cluster", ["exp", "Column", "exp"])]
