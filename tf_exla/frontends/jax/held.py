"""Results that must be computed once: numbers, and what is chosen from them to compare them with.

The gradient of a maximum looks for the numbers that are equal to it. XLA computes a result again in
each loop that reads it, and not always to the same bits (which of two products it adds by a fused
multiply-add): the maximum is then not among the numbers, and the gradient is lost or 0 / 0. So such
numbers are held in a buffer, by a branch that XLA cannot choose before it runs: it drops barriers
before it fuses. Where two loops compute the same numbers, all that they are computed from is held
as well: what else reads a product decides whether it is fused with the sum that follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import lax

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traits import EQUALITY, IDENTITIES, ORDER, RESHAPES
from tf_exla.vocabulary.table import VOCABULARY

X = Any  # an array
_CHOOSING = frozenset(
    {
        "argmax",
        "argmin",
        "max",
        "max_with_position",
        "min",
        "min_with_position",
        "top_k",
        "lax.sort",
    }
)


def held(graph: Graph, repeated: bool = False) -> frozenset[Tensor]:
    """Return the tensors of a graph that are compared, and of which a maximum or the like is taken.

    `repeated`: another loop computes the same numbers again; then those that are compared here, or
    chosen from, whichever it is, and what they are computed from.
    """
    root: dict[Tensor, Tensor] = {}
    computed = {one for node in graph.nodes if node.op != "constant" for one in node.outputs}
    for node in graph.nodes:
        if node.op in RESHAPES or node.op in IDENTITIES:
            pairs = zip(node.outputs, node.inputs, strict=False)  # a shape, or axes, may follow
            root.update((made, root.get(one, one)) for made, one in pairs)
    tested = {root.get(one, one) for node in graph.nodes for one in _compared(node)}
    chosen = {root.get(one, one) for node in graph.nodes for one in _chosen_from(node)}
    found = _sources(graph, tested | chosen) if repeated else tested & chosen
    return frozenset(one for one in found & computed if one.size > 1)


def _sources(graph: Graph, found: set[Tensor]) -> set[Tensor]:
    """Return tensors, and all real numbers that they are computed from, not what is only moved."""
    wanted = set(found)
    for node in reversed(graph.nodes):
        if wanted.isdisjoint(node.outputs):
            continue
        wanted.update(node.inputs)
        meaning = VOCABULARY.get(node.op)
        if meaning is None or meaning.flops != 0:
            found = found | {one for one in node.outputs if _is_real(one)}
    return found


def _compared(node: Node) -> Iterator[Tensor]:
    if node.op in EQUALITY or node.op in ORDER:
        yield from (one for one in node.inputs if _is_real(one))


def _chosen_from(node: Node) -> Iterator[Tensor]:
    if node.op in _CHOOSING and _is_real(node.inputs[0]):
        yield node.inputs[0]


def _is_real(tensor: Tensor) -> bool:
    return tensor.dtype.startswith(("float", "bfloat"))


def hold(x: X) -> X:
    """Return `x`, in a buffer."""
    first = lax.reshape(lax.slice(x, (0,) * x.ndim, (1,) * x.ndim), ())
    always = (first == first) | (first != first)  # XLA does not know it
    return lax.cond(always, lambda one: one, lambda one: -one, x)
