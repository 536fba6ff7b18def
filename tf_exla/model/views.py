"""Views: tensors that may share a part of a larger tensor's buffer, which they keep alive.

A list, a variable and the results of a sub-graph outlive the tensors around them. A view that is
stored there is copied. Otherwise the whole buffer would stay alive, but only the view be counted.
"""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import OpSet


class Views:
    """The set of tensors of one graph that are views; its nodes are added in order.

    Few tensors are ever looked up, so whether one is a view is determined by its first look-up.
    """

    def __init__(self, ops: OpSet) -> None:
        self._ops = ops
        self._producer: dict[Tensor, tuple[Node, int]] = {}
        self._original: dict[Tensor, Tensor] = {}  # of inputs of sub-graphs
        self._known: dict[Tensor, bool] = {}

    def __contains__(self, tensor: Tensor) -> bool:
        # Without recursion, since chains of ops that compute in place may be very long.
        todo = [tensor]
        while todo:
            one = todo[-1]
            if one in self._known or (unknown := self._unknown_sources(one)) is None:
                todo.pop()
            else:
                todo += unknown
        return self._known[tensor]

    def stand_in(self, tensor: Tensor, original: Tensor) -> None:
        """Add an input of a sub-graph whose nodes are emitted among those of the graph.

        It is the same tensor as `original`.
        """
        self._original[tensor] = self._original.get(original, original)

    def add(self, node: Node) -> None:
        """Add the results of a node."""
        if node.op != "constant" and node.inputs:
            for place, tensor in enumerate(node.outputs):
                self._producer[tensor] = node, place

    def _unknown_sources(self, tensor: Tensor) -> list[Tensor] | None:
        """Return tensors that decide whether this one is a view; None if it is known already."""
        sources = self._sources(tensor)
        unknown = [one for one in sources if one not in self._known]
        if unknown:
            return unknown
        self._known[tensor] = any(self._known[one] or part for one, part in sources.items())
        return None

    def _sources(self, tensor: Tensor) -> dict[Tensor, bool]:
        """Return the tensors whose buffer a tensor may share, and whether it is only a part."""
        if tensor in self._original:
            return {self._original[tensor]: False}
        if tensor not in self._producer:
            return {}
        node, place = self._producer[tensor]
        if self._ops.aliases(node) or self._ops.may_alias(node):
            if tensor.dtype in ("variant", "resource"):
                return {}
            largest = max(node.inputs, key=lambda one: one.nbytes)
            data = node.inputs[place] if node.op == "identity_n" else largest
            return {data: self._is_made(data) and _is_part(tensor, data)}
        if place:
            return {}
        operands = (node.inputs[position] for position in self._ops.forwards(node))
        return {one: False for one in operands if one.nbytes == tensor.nbytes}  # in place

    def _is_made(self, tensor: Tensor) -> bool:
        return self._original.get(tensor, tensor) in self._producer


def _is_part(tensor: Tensor, data: Tensor) -> bool:
    return not (tensor.is_static and data.is_static) or tensor.nbytes < data.nbytes
