"""Unread results and operands of a choice (cond, switch).

A choice whose gradient is not needed, or computes again what it needs, still returns numbers for
it. Each exists whole.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import reads


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
