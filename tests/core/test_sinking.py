"""Sinking: which producers move into a While, and what stays outside."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from core.toy import Builder, ToyOps
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves import sinking
from tf_exla.moves.sinking import sink
from tf_exla.split.origins import clash

N = 300
LARGE = 10_000


def loop(inputs: list[Tensor], reads_in_condition: bool = False) -> Node:
    """`while ...: v = K v`, the variables (v, K)."""
    v, k = (Tensor(t.shape, t.dtype, f"body/{t.name}") for t in inputs)
    after = Tensor(v.shape, v.dtype, "body/Kv")
    body = Graph((v, k), (Node("matmul", (k, v), (after,)),), (after, k))
    v, k = (Tensor(t.shape, t.dtype, f"cond/{t.name}") for t in inputs)
    more = const(np.array(False))
    nodes, output = (more,), more.output
    if reads_in_condition:
        row = Tensor((N,), "float64", "cond/sum")
        nodes, output = (Node("sum", (k,), (row,), {"axis": 0}),), row
    cond = Graph((v, k), nodes, (output,))
    outputs = tuple(Tensor(t.shape, t.dtype, f"after/{t.name}") for t in inputs)
    return Node("while", tuple(inputs), outputs, {"cond": cond, "body": body}, name="while")


def program(stateful: bool = False, **how: bool) -> tuple[Graph, Node]:
    b = Builder()
    x, v = b.input(N, 2), b.input(N, 1)
    d = b.op("matmul", x, b.op("permute_dims", x))
    k = b.op("exp", d, stateful=stateful)
    node = loop([v, k], **how)
    b.nodes.append(node)
    column = b.op("sum", node.outputs[1], axis=0)
    return b.graph(node.outputs[0], column), node


def ops_in_body(graph: Graph) -> list[str]:
    (node,) = (node for node in graph.nodes if node.op == "while")
    body = node.attrs["body"]
    assert isinstance(body, Graph)
    return [inner.op for inner in body.nodes]


def test_producers_move_and_later_readers_read_what_went_in() -> None:
    graph, _ = program()
    sunk = sink(graph, ToyOps(), LARGE)
    check_graph(sunk, graph)
    assert ops_in_body(sunk) == ["permute_dims", "matmul", "exp", "matmul"]
    # The column sums need K once more, outside.
    assert [node.op for node in sunk.nodes] == ["permute_dims", "matmul", "exp", "while", "sum"]
    assert sunk.nodes[-1].inputs == sunk.nodes[2].outputs


def test_what_stays() -> None:
    for graph in (program(stateful=True)[0], program(reads_in_condition=True)[0]):
        assert sink(graph, ToyOps(), LARGE) is graph
    graph, _ = program()
    assert sink(graph, ToyOps(), 10**9) is graph


def test_small_tensors_move_where_that_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = program()
    monkeypatch.setattr(sinking, "SETTINGS", dataclasses.replace(SETTINGS, light_work=0))
    sunk = sink(graph, ToyOps(), LARGE)
    check_graph(sunk, graph)
    assert ops_in_body(sunk) == ["matmul", "exp", "matmul"]


def test_what_no_iteration_changes_is_held_once() -> None:
    graph, node = program()
    step = Projector(ToyOps()).project(graph).steps[graph.nodes.index(node)]
    size = N * N * 8
    assert size < step.bytes < size + 50_000


def compared(op: str, within: bool) -> Graph:
    """`while ...: v = (K op m) v` with m = max(K), made inside of the loop or outside."""
    b = Builder()
    x, v = b.input(N, 2), b.input(N, 1)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", x)))
    m = b.op("max", k, axis=0)
    inner = Builder()
    inside = [inner.input(N, 1), inner.input(N, N), inner.input(N)]
    found = inner.op("max", inside[1], axis=0) if within else inside[2]
    after = inner.op("matmul", inner.op(op, inside[1], found), inside[0])
    body = inner.graph(after, inside[1], inside[2])
    cond = Builder()
    for tensor in inside:
        cond.input(*tensor.dims)
    outputs = tuple(Tensor(t.shape, t.dtype) for t in (v, k, m))
    more = cond.const(np.array(False))
    attrs = {"cond": cond.graph(more), "body": body}
    b.nodes.append(Node("while", (v, k, m), outputs, attrs, name="while"))
    return b.graph(outputs[0])


@pytest.mark.parametrize("op", ["equal", "less_equal"])
def test_what_is_compared_with_its_maximum_stays(op: str) -> None:
    graph = compared(op, within=False)
    assert sink(graph, ToyOps(), LARGE) is graph
    assert "exp" in ops_in_body(sink(compared(op, within=True), ToyOps(), LARGE))


def listed() -> Graph:
    """Two loops: one carries the largest of K along, the next looks for what it carried in K."""
    b = Builder()
    x, v = b.input(N, 2), b.input(N, N)
    k = b.op("exp", b.op("matmul", x, b.op("permute_dims", x)))
    carried = b.input(N)

    def loop(step: str) -> Node:
        inner = Builder()
        inside = [inner.input(N, N), inner.input(N, N), inner.input(N)]
        if step == "max":
            after = (inside[0], inner.op("add", inside[2], inner.op("max", inside[1], axis=0)))
        else:
            after = (
                inner.op("matmul", inner.op("equal", inside[1], inside[2]), inside[0]),
                inside[2],
            )
        body = inner.graph(after[0], inside[1], after[1])
        cond = Builder()
        for tensor in inside:
            cond.input(*tensor.dims)
        more = cond.const(np.array(False))
        last = b.nodes[-1]
        first, largest = (last.outputs[0], last.outputs[2]) if last.op == "while" else (v, carried)
        outputs = tuple(Tensor(t.shape, t.dtype) for t in (v, k, carried))
        attrs = {"cond": cond.graph(more), "body": body}
        return Node("while", (first, k, largest), outputs, attrs, name=step)

    b.nodes.append(loop("max"))
    b.nodes.append(loop("equal"))
    return b.graph(b.nodes[-1].outputs[0])


def test_what_a_loop_has_carried_is_not_looked_for_in_another_copy() -> None:
    """One of the loops may make K itself where the other reads what it made; not both."""
    graph = listed()
    sunk = sink(graph, ToyOps(), LARGE)
    assert clash(sunk, ToyOps()) is None
    loops = [node for node in sunk.nodes if node.op == "while"]
    bodies = [node.attrs["body"] for node in loops]
    assert not any("exp" in [node.op for node in body.nodes] for body in bodies)
