"""Own copies: a reader that would tie two axes of a large tensor computes a copy of the tensor.

`a + aᵀ` of a matrix that is not symmetric reads `a` along its rows and along its columns. One loop
cannot do both, since each node is split along one axis only. With a second copy of all nodes that
compute `a` from small tensors, the loop over the rows of the sum computes rows of one copy and
columns of the other. Small tensors, such as the sums of its rows, are not copied: they come from an
earlier stage.

Likewise for a product `a b` with a large result: a loop over its rows reads all of `b`, and can
compute it in its body (`split/invariants.py`) unless other nodes read `b`. In the gradient, the
products with `aᵀ` and `bᵀ` are split along different axes, so each gets its own copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.copying import copy_nodes
from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import consumers, producers, without_dead
from tf_exla.model.settings import SETTINGS
from tf_exla.split.regions.large_producers import large_producers
from tf_exla.split.regions.origins import clash, tests_order


def transpose_apart(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Copy the producers of tensors of more than `least` bytes for each node that transposes one.

    They are not copied if numbers of two copies would be compared (`split/regions/origins.py`).
    """
    return _with_copies(graph, ops, least, lambda node: _transposed(node, ops, least))


def operands_apart(graph: Graph, ops: OpSet, least: int) -> Graph:
    """As `transpose_apart`; also copy producers of the operands of each large product.

    Products have results and operands of more than `least` bytes. A product that is the only reader
    of an operand needs no copy of it.
    """

    def positions(node: Node) -> Iterable[int]:
        return _transposed(node, ops, least) or _multiplied(node, ops, least)

    return _with_copies(graph, ops, least, positions, only_shared=True)


def _with_copies(
    graph: Graph,
    ops: OpSet,
    least: int,
    positions: Callable[[Node], Iterable[int]],
    only_shared: bool = False,
) -> Graph:
    """Copy the producers of some operands of each node, those at `positions(node)`.

    `only_shared`: copy only producers whose results have other readers.
    """
    budget = (SETTINGS.copied_work - 1) * sum(map(ops.flops, graph.nodes))
    tested = tests_order(graph)
    made_by = producers(graph)
    for node in graph.nodes:
        for position in positions(node):
            now = made_by.get(node.output)  # the node with its operands replaced by copies
            if now is None:  # all its readers read copies
                continue
            chain = large_producers(now.inputs[position], made_by, ops, least)
            work = sum(map(ops.flops, chain))
            if not chain or work > budget or (only_shared and not _is_shared(graph, chain, now)):
                continue
            own = {tensor: tensor for one in chain for tensor in one.inputs}
            copies = copy_nodes(chain, own)
            inputs = list(now.inputs)
            inputs[position] = own[inputs[position]]
            reader = dataclasses.replace(now, inputs=tuple(inputs))
            made = without_dead(graph.with_instead(now, *copies, reader))
            if tested and clash(made, ops) is not None:
                continue
            graph, budget = made, budget - work
            made_by = producers(graph)
    return graph


def _transposed(node: Node, ops: OpSet, least: int) -> tuple[int, ...]:
    """Return (0,) if a node only permutes the axes of its large operand 0, else ()."""
    if node.stateful or len(node.outputs) != 1 or node.output.nbytes <= least or ops.flops(node):
        return ()
    rule = ops.rule(node)
    if not isinstance(rule, AxisRule) or rule.combine or not rule.operands:
        return ()
    before, after = rule.operands[0], rule.results[0]
    if before is None or None in before or None in after:
        return ()
    labels = [[axis.label for axis in axes if axis is not None] for axes in (before, after)]
    return (0,) if labels[0] != labels[1] and sorted(labels[0]) == sorted(labels[1]) else ()


def _multiplied(node: Node, ops: OpSet, least: int) -> tuple[int, ...]:
    """Return the positions of large operands of a product with a large result."""
    if node.stateful or len(node.outputs) != 1 or node.output.nbytes <= least:
        return ()
    rule = ops.rule(node)
    if not isinstance(rule, AxisRule) or "add" not in rule.combine.values():
        return ()
    return tuple(k for k, tensor in enumerate(node.inputs) if tensor.nbytes > least)


def _is_shared(graph: Graph, chain: list[Node], reader: Node) -> bool:
    """Return whether results of `chain` have another use than one operand of `reader`."""
    readers, inside = consumers(graph), {*chain, reader}
    results = [node.output for node in chain]
    return sum(map(results.count, reader.inputs)) > 1 or any(
        made in graph.outputs or any(one not in inside for one, _ in readers.get(made, ()))
        for made in results
    )
