"""The markers by which `tf.recompute_grad` keeps XLA from merging what it computes again.

The gradient of `tf.recompute_grad(f)` computes `f(x + z)`, where z is zero, but depends on the
upstream gradient: `where(b == b, 0, nan)` for a bool b. Without z, the nodes of `f(x)` and of its
recomputation are equal. The passes then choose what to compute again: as the user wrote it if that
is within the limit ("equal results apart"), else what the limit requires.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import producers, with_subgraphs


def without_markers(graph: Graph) -> Graph:
    """Return the graph with `x` instead of `x + z` in recomputations, also in sub-graphs."""
    made_by = producers(graph)
    nodes = []
    for old in graph.nodes:
        node = with_subgraphs(old, without_markers)
        if node.op == "add" and _is_marker(node.inputs[1], made_by):
            node = node.replace(op="identity", inputs=node.inputs[:1], attrs={})
        nodes.append(node)
    return graph.with_nodes(nodes)


def _is_marker(tensor: Tensor, made_by: Mapping[Tensor, Node]) -> bool:
    choice = made_by.get(tensor)
    if choice is not None and choice.op == "astype":
        choice = made_by.get(choice.inputs[0])
    if choice is None or choice.op != "where" or tensor.shape != ():
        return False
    test, zero, other = choice.inputs
    equal = made_by.get(test)
    return (
        equal is not None
        and equal.op == "equal"
        and equal.inputs[0] is equal.inputs[1]
        and equal.inputs[0].dtype == "bool"
        and zero.value is not None
        and other.value is not None
        and not np.any(zero.value)
        and bool(np.all(np.isnan(other.value)))
    )
