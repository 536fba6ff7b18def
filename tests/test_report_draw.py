"""The picture of a graph before and after: which nodes and edges it shows."""

from pathlib import Path

import pytest
import tensorflow as tf

import tf_exla
from tf_exla.report.draw import _edges, visible
from tf_exla.report.graph import INPUT, GraphNode
from tf_exla.report.report import MemoryReport


@pytest.fixture(scope="module")
def report() -> MemoryReport:
    def matvec(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.exp(-tf.square(x - tf.transpose(y))), v)

    column = tf.TensorSpec([2000, 1], tf.float64)
    return tf_exla.explain(matvec, column, column, column, limit="2MB")


def node(op: str, *inputs: int, size: int = 10, output: bool = False) -> GraphNode:
    return GraphNode(op, op.lower(), (size,), "float64", 8 * size, inputs, None, output)


def test_graph_before_has_the_large_tensors_and_after_their_chunks(report: MemoryReport) -> None:
    large = {n.op for n in report.graph_before if n.shape == (2000, 2000)}
    assert {"subtract", "square", "exp"} <= large
    assert all(n.loop is None for n in report.graph_before)
    chunk = report.loops[0].chunk
    inside = [n for n in report.graph if n.loop == 0]
    assert {n.op for n in inside} >= {"exp", "matmul"}
    assert {n.shape for n in inside if n.op == "exp"} == {(chunk, 2000)}
    assert max(n.bytes for n in report.graph) <= 2 * 10**6
    for graph in (report.graph_before, report.graph):
        assert [n.op for n in graph].count(INPUT) == 3
        assert all(max(n.inputs, default=-1) < i for i, n in enumerate(graph))


def test_a_loop_is_fed_from_outside_and_feeds_the_result(report: MemoryReport) -> None:
    outside = {i for i, n in enumerate(report.graph) if n.loop is None}
    assert any(set(n.inputs) & outside for n in report.graph if n.loop == 0)
    assert any(n.output for n in report.graph)


def test_the_largest_nodes_are_drawn_and_scalars_are_not() -> None:
    nodes = [
        node("input", size=3), node("constant"), node("negative", 0, size=1),
        node("exp", 0, size=50),
        node("log", 3, size=20), node("sum", 4, size=1, output=True),
    ]  # fmt: skip
    assert visible(nodes, 40) == [0, 3, 4, 5]
    assert visible(nodes, 3) == [3, 4, 5]


def test_edges_lead_through_hidden_nodes_once() -> None:
    nodes = [node("A"), node("B", 0), node("C", 1), node("D", 1, 2), node("E", 0, 3)]
    # Without B, A leads to C, and C to D, so A to D is left out. A to E is an edge itself.
    assert _edges([0, 2, 3, 4], nodes) == [(0, 1), (1, 2), (0, 3), (2, 3)]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_drawn_to_a_file(report: MemoryReport, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"graph.{suffix}"
    report.draw(path)
    start = path.read_bytes()[:100]
    assert b"<?xml" in start if suffix == "svg" else start.startswith(b"\x89PNG")
