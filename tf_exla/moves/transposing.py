"""Transposed copies: each reader of a large transposed tensor computes its own copy.

`a + aᵀ` of a matrix that is not symmetric reads `a` along its rows and along its columns. No loop
holds both, since a node is split along one axis. With a second copy of all nodes that compute `a`
from small tensors, the loop over the rows of the sum computes rows of one copy and columns of the
other. Small tensors, such as the sums of its rows, are not copied: they come from an earlier stage.
"""

from __future__ import annotations

import dataclasses

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, without_dead
from tf_exla.model.settings import SETTINGS
from tf_exla.split.origins import clash, tests_order


def transpose_apart(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Copy the producers of tensors of more than `least` bytes for each node that transposes one.

    They are not copied where two copies would be compared.
    """
    budget = (SETTINGS.copied_work - 1) * sum(map(ops.flops, graph.nodes))
    tested = tests_order(graph)
    made_by = producers(graph)
    for node in graph.nodes:
        if not _transposes(node, ops, least):
            continue
        now = made_by.get(node.output)  # its operand may be a copy by now
        if now is None:  # copies replaced it
            continue
        chain = _chain(now.inputs[0], made_by, ops, least)
        work = sum(map(ops.flops, chain))
        if not chain or work > budget:
            continue
        copies, own = _copied(chain)
        at = graph.nodes.index(now)
        nodes = (*graph.nodes[:at], *copies, now.substitute(own), *graph.nodes[at + 1 :])
        made = without_dead(graph.replace(nodes=nodes))
        if tested and clash(made, ops) is not None:
            continue
        graph, budget = made, budget - work
        made_by = producers(graph)
    return graph


def _transposes(node: Node, ops: OpSet, least: int) -> bool:
    """Return whether a node only permutes the axes of a large tensor."""
    if node.stateful or len(node.outputs) != 1 or node.output.nbytes <= least or ops.flops(node):
        return False
    rule = ops.rule(node)
    if not isinstance(rule, AxisRule) or rule.combine or not rule.operands:
        return False
    before, after = rule.operands[0], rule.results[0]
    if before is None or None in before or None in after:
        return False
    labels = [[axis.label for axis in axes if axis is not None] for axes in (before, after)]
    return labels[0] != labels[1] and sorted(labels[0]) == sorted(labels[1])


def _chain(tensor: Tensor, made_by: dict[Tensor, Node], ops: OpSet, least: int) -> list[Node]:
    """Return the nodes that compute a large tensor from small ones and can be split, in order."""
    found: dict[Node, None] = {}
    work = [(tensor, False)]
    while work:
        wanted, ready = work.pop()
        node = made_by.get(wanted)
        if node is None or wanted.nbytes <= least or node in found or not _can_copy(node, ops):
            continue
        if ready:
            found[node] = None
            continue
        work.append((wanted, True))
        work += [(one, False) for one in node.inputs]
    return list(found)


def _can_copy(node: Node, ops: OpSet) -> bool:
    if node.stateful or node.subgraphs or len(node.outputs) != 1 or node.op == "constant":
        return False
    return isinstance(ops.rule(node), AxisRule)


def _copied(chain: list[Node]) -> tuple[list[Node], dict[Tensor, Tensor]]:
    own: dict[Tensor, Tensor] = {}
    copies: list[Node] = []
    for node in chain:
        inputs = tuple(own.get(tensor, tensor) for tensor in node.inputs)
        own[node.output] = node.output.copy()
        copies.append(dataclasses.replace(node, inputs=inputs, outputs=(own[node.output],)))
    return copies, own
