"""Variables of a While that nobody reads but their own next value.

The gradient of a While keeps in lists what its iterations computed, also what it then has no use
for: such a list is a variable that grows, and that nothing reads.
"""

from __future__ import annotations

from collections.abc import Set

from tf_exla.ir.control_flow import body_of, cond_of, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor


def without_idle_variables(node: Node, wanted: Set[Tensor]) -> Node:
    """Return a While without the variables that `wanted`, the condition and others do not need."""
    cond, body = cond_of(node), body_of(node)
    count = len(body.inputs)
    live = {k for k, tensor in enumerate(node.outputs) if tensor in wanted}
    live |= {k for k, tensor in enumerate(cond.inputs) if tensor in _needed(cond, cond.outputs)}
    while True:
        needed = _needed(body, [body.outputs[k] for k in live])
        more = live | {k for k, tensor in enumerate(body.inputs) if tensor in needed}
        if more == live:
            break
        live = more
    if len(live) == count:
        return node
    nodes = (one for one in body.nodes if one.stateful or not needed.isdisjoint(one.outputs))
    idle = set(range(count)) - live
    return with_variables(node, dropped=idle, body=body.replace(nodes=tuple(nodes)))


def _needed(graph: Graph, outputs: tuple[Tensor, ...] | list[Tensor]) -> set[Tensor]:
    """Return every tensor that `outputs` and the side effects depend on."""
    needed = set(outputs)
    for node in reversed(graph.nodes):
        if node.stateful or not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
    return needed
