"""The tensors in whose buffers the results of a program are computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers


def result_buffers(
    graph: Graph, ops: OpSet, views: Collection[Node], uses: Mapping[Tensor, int]
) -> frozenset[Tensor]:
    """Return the tensors in whose buffers the results of a graph are computed.

    For the result of a While whose variables overwrite their initial values, this is the initial
    value. Arguments and constants have buffers of their own. `views`: the nodes that return their
    operand. `uses`: how often each tensor is read or returned.
    """
    made_by = producers(graph)
    found = set()
    for result in graph.outputs:
        tensor = result
        while (node := made_by.get(tensor)) is not None:
            if node in views:
                before = node.inputs[0]
            elif is_while(node) and ops.overwrites_variables():
                before = node.inputs[node.outputs.index(tensor)]
                if uses[before] > 1:
                    break
            else:
                break
            tensor = before
        if node is not None and node.op != "constant":
            found.add(tensor)
    return frozenset(found)
