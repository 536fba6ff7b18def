"""The markers by which `tf.recompute_grad` keeps XLA from merging what it computes again.

The gradient of `tf.recompute_grad(f)` computes `f(x + z)`, where z is zero, but depends on the
upstream gradient: `where(b == b, 0, nan)` with `b = cast(max(upstream[:1]), bool)`. Without z, the
nodes of `f(x)` and of its recomputation are equal. The passes then choose what to compute again: as
the user wrote it if that is within the limit ("equal results apart"), else what the limit requires.
(`-0 + z` is 0, so the recomputation may have seen another sign of a zero than the original.)
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
    if equal is None or equal.op != "equal" or equal.inputs[0] is not equal.inputs[1]:
        return False
    cast = made_by.get(equal.inputs[0])
    largest = made_by.get(cast.inputs[0]) if cast is not None and cast.op == "astype" else None
    return largest is not None and largest.op == "max" and _is_zero_or_nan(zero, other)


def _is_zero_or_nan(zero: Tensor, other: Tensor) -> bool:
    if zero.value is None or other.value is None:
        return False
    values = np.asarray(zero.value), np.asarray(other.value)
    return (
        all(one.dtype.kind == "f" for one in values)
        and not values[0].any()
        and bool(np.isnan(values[1]).all())
    )
