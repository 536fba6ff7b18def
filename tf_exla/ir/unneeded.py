"""Removes unneeded results of Whiles and choices (cond, switch), and their operands.

A While keeps results of its iterations in lists for its gradient, also results that the gradient
does not use. Such a list is an idle variable: it grows, and only its own next value reads it. A
choice returns tensors for its gradient even if the gradient is not needed, or computes them again.
Such tensors would have to exist as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tf_exla.ir.control_flow import body_of, cond_of, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import reads


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


def without_unread(node: Node, wanted: Set[Tensor], drop_dead: Callable[[Graph], Graph]) -> Node:
    """Return a choice with its `wanted` results only, and the operands that its branches read.

    `drop_dead`: removes the nodes of a branch that nothing reads.
    """
    results = [k for k, tensor in enumerate(node.outputs) if tensor in wanted]
    branches = {
        key: drop_dead(branch.replace(outputs=tuple(branch.outputs[k] for k in results)))
        for key, branch in node.subgraphs
    }
    read = {key: reads(branch) for key, branch in branches.items()}
    operands = [
        k
        for k in range(len(node.inputs) - 1)
        if any(branch.inputs[k] in read[key] for key, branch in branches.items())
    ]
    if len(results) == len(node.outputs) and len(operands) == len(node.inputs) - 1:
        return node
    for key, branch in branches.items():
        branches[key] = branch.replace(inputs=tuple(branch.inputs[k] for k in operands))
    return node.replace(
        inputs=(node.inputs[0], *(node.inputs[1 + k] for k in operands)),
        outputs=tuple(node.outputs[k] for k in results),
        attrs={**node.attrs, **branches},
    )
