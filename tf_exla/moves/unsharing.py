"""Unsharing: each reader of a large tensor that is cheap to make gets its own.

A mask, or the like, is made of small tensors by a few pointwise nodes. Where it is read along its
rows by one node and along its columns by another, as the labels of a symmetric cross entropy are,
no loop can hold it: a node takes part along one axis. Two copies can each follow their readers.
"""

from __future__ import annotations

import dataclasses

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import consumers
from tf_exla.model.settings import SETTINGS
from tf_exla.split.origins import clash, tests_order


def unshare(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Copy what makes tensors of more than `least` bytes of small ones, for each reader."""
    depth: dict[Tensor, int] = {}
    cheap: set[Node] = set()
    for node in graph.nodes:
        large = [tensor for tensor in node.inputs if tensor.nbytes > least]
        level = 1 + max((depth.get(tensor, SETTINGS.copied_depth) for tensor in large), default=0)
        if level <= SETTINGS.copied_depth and _is_cheap(node, ops) and node.output.nbytes > least:
            depth[node.output] = level
            cheap.add(node)
    readers = consumers(graph)
    tested = tests_order(graph)
    while any(len(readers.get(node.output, ())) > 1 for node in cheap):
        made = _unshared(graph, cheap)
        met = clash(made, ops) if tested else None
        if met is None:
            return made
        # Two copies of it would be compared: it stays one, and so does what makes it.
        kept = {met}
        for node in reversed(graph.nodes):
            if node in cheap and node.output in kept:
                cheap.remove(node)
                kept.update(node.inputs)
    return graph


def _unshared(graph: Graph, cheap: set[Node]) -> Graph:
    """Copy `cheap` nodes for each reader."""
    by_output = {node.output: node for node in cheap}
    outputs = frozenset(graph.outputs)
    nodes: list[Node] = []

    def copied(node: Node) -> Tensor:
        inputs = tuple(copied(by_output[t]) if t in by_output else t for t in node.inputs)
        made = node.output
        again = made.copy()
        nodes.append(dataclasses.replace(node, inputs=inputs, outputs=(again,)))
        return again

    for node in graph.nodes:
        if node in cheap and node.output not in outputs:
            continue
        own: dict[Tensor, Tensor] = {}  # one for all operands of a node
        for tensor in node.inputs:
            if tensor in by_output and tensor not in outputs and tensor not in own:
                own[tensor] = copied(by_output[tensor])
        nodes.append(node.substitute(own))
    return graph.replace(nodes=tuple(nodes))


def _is_cheap(node: Node, ops: OpSet) -> bool:
    if node.stateful or len(node.outputs) != 1 or node.op == "constant" or not node.inputs:
        return False
    if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)):
        return False
    rule = ops.rule(node)
    return isinstance(rule, AxisRule) and not rule.combine and ops.work(node) == "pointwise"
