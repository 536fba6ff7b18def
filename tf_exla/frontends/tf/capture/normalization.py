"""Replace ops that TensorFlow has in several versions by those that passes know or can split."""

from __future__ import annotations

import dataclasses

import numpy as np

from tf_exla.frontends.tf.capture.effects import UPDATES
from tf_exla.frontends.tf.capture.recomputation import without_markers
from tf_exla.frontends.tf.capture.variable_reads import placed, read_of
from tf_exla.frontends.tf.nodes.emit import is_large
from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.powers import of_known_powers
from tf_exla.ir.traverse import with_subgraphs

_DIAGONALS = {"MatrixDiag": "matrix_diag", "MatrixDiagPart": "matrix_diag_part",
              "MatrixSetDiag": "matrix_set_diag"}  # fmt: skip
"""Ops of the main diagonal only."""
_MOMENTS = 5
"""Number of results that both batch normalizations share, and of operands of both gradients."""


def normalize(graph: Graph) -> Graph:
    """Return the graph with the versions of ops that can be split."""
    graph = without_markers(of_main_diagonals(without_reserve(graph)))
    return with_new_values(of_known_powers(graph))


def with_new_values(graph: Graph) -> Graph:
    """Replace additions to large variables by a read, a sum and an assignment.

    An update in place needs the whole summand. It also copies the variable if another tensor shares
    its buffer. The sum, in contrast, is computed in chunks like any result, and then replaces the
    old value. Subtractions are treated likewise.
    """
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, with_new_values)
        change = node.inputs[-1] if node.op in UPDATES else None
        if change is None or not (change.is_static and is_large(change)):
            nodes.append(node)
            continue
        total = Tensor(change.shape, change.dtype, f"{node.name}/total")
        read = read_of(node, change)
        operands = (read.output, change)
        add = Node(UPDATES[node.op], operands, (total,), name=total.name, source=node.source)
        assign = dataclasses.replace(
            node,
            op="AssignVariableOp",
            inputs=(node.inputs[0], total),
            attrs={**placed(node), "validate_shape": True},
        )
        nodes += [read, add, assign]
    return graph.with_nodes(nodes)


def of_main_diagonals(graph: Graph) -> Graph:
    """Replace ops on the main diagonal by ops on any diagonals."""
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, of_main_diagonals)
        operands: list[Node] = []
        if node.op in _DIAGONALS and node.output.dtype != "string":
            k, dtype = np.int32(0), node.output.dtype
            operands.append(const(k, f"{node.name}/k"))
            if node.op == "MatrixDiag":  # the smallest matrix that holds the diagonal
                operands += [
                    const(np.int32(-1), f"{node.name}/{axis}") for axis in ("rows", "columns")
                ]
            if node.op != "MatrixSetDiag":
                zero = np.zeros((), "float32" if dtype == "bfloat16" else dtype)
                operands.append(const(zero, f"{node.name}/padding", dtype))
            node = dataclasses.replace(
                node, op=_DIAGONALS[node.op],
                inputs=(*node.inputs, *(one.output for one in operands)),
                attrs={**node.attrs, "align": "RIGHT_LEFT"},
            )  # fmt: skip
        nodes += [*operands, node]
    return graph.with_nodes(nodes)


def without_reserve(graph: Graph) -> Graph:
    """Replace batch normalizations whose sixth result is read only by their gradients.

    The sixth result of `FusedBatchNormV3` is cuDNN's memory for the gradient, which has no parts
    for chunks of images or channels. Without that result, the op is `FusedBatchNormV2`.
    """
    graph = graph.replace(
        nodes=tuple(with_subgraphs(node, without_reserve) for node in graph.nodes)
    )
    reserves = {
        node.outputs[_MOMENTS]
        for node in graph.nodes
        if node.op == "FusedBatchNormV3" and _is_plain(node)
    }
    kept: set[Tensor] = set(graph.outputs)
    for node in graph.nodes:
        gradient = node.op == "FusedBatchNormGradV3" and _is_plain(node)
        kept.update(node.inputs[:_MOMENTS] if gradient else node.inputs)
    reserves -= kept
    if not reserves:
        return graph
    return graph.replace(nodes=tuple(_replaced(node, reserves) for node in graph.nodes))


def _is_plain(node: Node) -> bool:
    return str(node.attrs.get("data_format", "NHWC")) in ("NHWC", "NCHW")


def _replaced(node: Node, reserves: set[Tensor]) -> Node:
    if node.op == "FusedBatchNormV3" and node.outputs[_MOMENTS] in reserves:
        outputs = node.outputs[:_MOMENTS]
        return dataclasses.replace(node, op="FusedBatchNormV2", outputs=outputs)
    if node.op == "FusedBatchNormGradV3" and node.inputs[_MOMENTS] in reserves:
        inputs = node.inputs[:_MOMENTS]
        return dataclasses.replace(node, op="FusedBatchNormGradV2", inputs=inputs)
    return node
