"""Tensors that XLA must compute only once: they are compared with an element chosen from them.

The gradient of a maximum searches for the elements equal to it. XLA recomputes a tensor in each
fusion that reads it, and not always to the same bits: of a b + c d, either product may be fused
with the addition. The maximum is then not among the elements, and the gradient is zero or 0 / 0.

So such tensors are stored in a buffer, by a branch that XLA cannot decide at compile time. A
barrier does not suffice, since XLA drops barriers before it fuses. If two loops compute the same
numbers, the tensors from which these are computed are stored as well: whether a product is fused
into the sum that follows depends on its other uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import lax

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traits import EQUALITY, EXTREMES, IDENTITIES, ORDER, RESHAPES
from tf_exla.vocabulary.table import VOCABULARY

X = Any  # an array
_CHOOSING = EXTREMES | {"lax.sort", "radix_counts", "sort"}


def held(graph: Graph, repeated: bool = False) -> frozenset[Tensor]:
    """Return the tensors of a graph that are compared, and of which a maximum or the like is taken.

    `repeated`: another loop computes the same numbers again. Then return all tensors that are
    compared or from which an element is chosen, and those from which they are computed.
    """
    root: dict[Tensor, Tensor] = {}
    computed = {one for node in graph.nodes if node.op != "constant" for one in node.outputs}
    for node in graph.nodes:
        if node.op in RESHAPES or node.op in IDENTITIES:
            pairs = zip(node.outputs, node.inputs, strict=False)  # further inputs: shapes or axes
            root.update((made, root.get(one, one)) for made, one in pairs)
    tested = {root.get(one, one) for node in graph.nodes for one in _compared(node)}
    chosen = {root.get(one, one) for node in graph.nodes for one in _chosen_from(node)}
    found = _sources(graph, tested | chosen) if repeated else tested & chosen
    return frozenset(one for one in found & computed if one.size > 1)


def _sources(graph: Graph, found: set[Tensor]) -> set[Tensor]:
    """Return tensors and the real results from which they are computed, except for moved ones."""
    wanted = set(found)
    for node in reversed(graph.nodes):
        if wanted.isdisjoint(node.outputs):
            continue
        wanted.update(node.inputs)
        meaning = VOCABULARY.get(node.op)
        if meaning is None or meaning.flops != 0:
            found = found | {one for one in node.outputs if one.is_real}
    return found


def _compared(node: Node) -> Iterator[Tensor]:
    if node.op in EQUALITY or node.op in ORDER:
        yield from (one for one in node.inputs if one.is_real)


def _chosen_from(node: Node) -> Iterator[Tensor]:
    if node.op in _CHOOSING and node.inputs[0].is_real:
        yield node.inputs[0]


def hold(x: X) -> X:
    """Return `x`, stored in a buffer."""
    first = lax.reshape(lax.slice(x, (0,) * x.ndim, (1,) * x.ndim), ())
    always = (first == first) | (first != first)  # true, but XLA does not fold it
    return lax.cond(always, lambda one: one, lambda one: -one, x)
