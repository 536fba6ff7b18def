"""How well XLA compiles a node, by the record of its op."""

from __future__ import annotations

from tf_exla.frontends.tf.ops.record import Op
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Node
from tf_exla.ir.op_set import Compiles

_NOT_COMPILED = HANDLES | {"string"}
# float16 and bfloat16 are computed in float32 and rounded, but fusion leaves out these roundings.
_ROUNDED = ("float16", "bfloat16", "half", "complex")


def has_form(node: Node, op: Op) -> bool:
    """Return whether a cluster replaces the node by other ops; for float32 and float64 only."""
    return op.form is not None and node.output.dtype in ("float32", "float64")


def compiles(node: Node, op: Op) -> Compiles:
    """Return how well XLA compiles a node; "" if it does not."""
    tensors = (*node.inputs, *node.outputs)
    if not all(tensor.is_static for tensor in tensors) or node.stateful:
        return ""
    if any(tensor.dtype in _NOT_COMPILED for tensor in tensors):
        return ""
    if has_form(node, op):
        return "well"
    found = op.xla if isinstance(op.xla, str) else op.xla(node)
    slower = any(tensor.dtype.startswith(_ROUNDED) for tensor in tensors)
    return "poorly" if found == "well" and slower else found
