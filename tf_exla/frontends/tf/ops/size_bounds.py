"""Upper bounds of the results' sizes and integers of any op, by its record."""

from __future__ import annotations

from collections.abc import Sequence

from tf_exla.frontends.tf.ops.bounds.infer import broadcast, infer
from tf_exla.frontends.tf.ops.bounds.values import below_zero
from tf_exla.frontends.tf.ops.record import Op
from tf_exla.ir.bounds import HANDLES, Most, largest
from tf_exla.ir.graph import Node


def size_bounds(node: Node, op: Op, operands: Sequence[Most]) -> list[Most]:
    """Return upper bounds of the sizes of a node's results, and of their integers."""
    made = _sizes(node, op, operands)
    if op.values is None or not any("int" in tensor.dtype for tensor in node.outputs):
        return made
    below = below_zero(node, operands, op.values)
    return [
        Most(one.dims, one.size, value or one.value, below)
        for one, value in zip(made, op.values(node, operands), strict=True)
    ]


def _sizes(node: Node, op: Op, operands: Sequence[Most]) -> list[Most]:
    if op.bounds is not None:
        return list(op.bounds(node, operands))
    made = infer(node, operands, op.shape_operand)
    if all(tensor.is_static or tensor.dtype in HANDLES for tensor in node.outputs):
        return made
    if op.size == "broadcast":
        made = [broadcast(node, operands, one) for one in made]
        return [one.within(t.shape) for one, t in zip(made, node.outputs, strict=True)]
    size = largest(operands[:1]) if op.size in ("equal", "not larger") else None
    return [one.at_most(size).within(t.shape) for one, t in zip(made, node.outputs, strict=True)]
