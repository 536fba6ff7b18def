"""Idle variables of a While: only their own next value reads them.

The gradient of a While keeps results of its iterations in lists, also results that it does not use.
Such a list is a variable that grows and is never read.
"""

from __future__ import annotations

from collections.abc import Set

from tf_exla.ir.control_flow import body_of, cond_of, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor


def without_idle_variables(node: Node, wanted: Set[Tensor]) -> Node:
    """Return a While without variables that no `wanted` result, condition or side effect needs."""
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
