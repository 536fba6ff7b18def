"""Tensors that may share a part of a larger tensor's buffer, which they keep alive.

A list, a variable and the results of a sub-graph outlive the tensors around them. A view that is
stored there is copied: else the whole buffer would stay, of which only the view counts.
"""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import OpSet


class Views:
    """The views among the tensors of one graph, whose nodes are added in order."""

    def __init__(self, ops: OpSet) -> None:
        self._ops = ops
        self._made: set[Tensor] = set()
        self._views: set[Tensor] = set()

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self._views

    def stand_in(self, tensor: Tensor, original: Tensor) -> None:
        """Add an input of a sub-graph that is emitted in place; it is `original`."""
        for known in (self._made, self._views):
            if original in known:
                known.add(tensor)

    def add(self, node: Node) -> None:
        """Add the results of a node."""
        if node.op == "constant" or not node.inputs:
            return
        self._made.update(node.outputs)
        if self._ops.aliases(node) or self._ops.may_alias(node):
            largest = max(node.inputs, key=lambda tensor: tensor.nbytes)
            for k, tensor in enumerate(node.outputs):
                if tensor.dtype in ("variant", "resource"):
                    continue
                data = node.inputs[k] if node.op == "identity_n" else largest
                if data in self._views or (data in self._made and _is_part(tensor, data)):
                    self._views.add(tensor)
            return
        for position in self._ops.forwards(node):  # computed in place
            operand = node.inputs[position]
            if operand in self._views and operand.nbytes == node.outputs[0].nbytes:
                self._views.add(node.outputs[0])


def _is_part(tensor: Tensor, data: Tensor) -> bool:
    return not (tensor.is_static and data.is_static) or tensor.nbytes < data.nbytes
