"""The nodes that compute a large tensor from small ones, for passes that copy them elsewhere.

Small intermediate tensors, such as the sums of rows, are not among them. They are computed once,
and the copies read them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import OpSet


def large_producers(
    tensor: Tensor, made_by: Mapping[Tensor, Node], ops: OpSet, least: int
) -> list[Node]:
    """Return the nodes that compute `tensor` from tensors of at most `least` bytes, in order.

    `made_by`: the producer of each tensor. Nodes that cannot be split are not among the returned
    ones, and their results are operands whatever their size.
    """
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
    if any(tensor.dtype in HANDLES for tensor in node.inputs):
        return False  # what a variable or a list holds is not computed from small tensors
    rule = ops.rule(node)
    if not isinstance(rule, AxisRule):
        return False
    return any(axis is not None and axis.splittable for axis in rule.results[0])
