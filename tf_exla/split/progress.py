"""Progress: what a step of the search must achieve, where several parts of a program need as much.

The peak alone does not tell: of two kernel matrices of one size, the second still needs as much
once the first is split, and the loops that took its place a few bytes more for their nodes. So the
steps of the plan that need as much as any are counted as well, and what the new loops need is
looked at beside the rest of the program.
"""

from __future__ import annotations

from typing import NamedTuple

from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projection, Projector


class Peak(NamedTuple):
    """The largest bytes of any step, and the steps that need so many; compared in this order.

    Without what counts for the whole run, small tensors and nodes. Only nodes that touch a tensor
    large enough to be run in the order of the plan count.
    """

    bytes: int
    steps: int


def peak_of(projector: Projector, graph: Graph) -> Peak:
    """Return how much the largest steps of a graph need, and how many there are."""
    projection = projector.project(graph)
    most = projection.working_set
    steps = sum(
        needed == most and _is_ordered(node)
        for node, needed in zip(projection.nodes, projection.bytes, strict=True)
    )
    return Peak(most - projection.loose, steps)


def own_bytes(projector: Projector, graph: Graph, before: Graph) -> int:
    """Return the working set at the loops of `graph` that `before` does not have.

    Loops that got another chunk are the same.
    """
    position = own_step(projector.project(graph), before)
    if position is None:
        return 0
    return projector.project(graph).bytes[position] + projector.overhead(graph)


def rest_bytes(projection: Projection, before: Graph) -> int:
    """Return the bytes of the largest step that is not at a loop that `before` does not have."""
    known = _outputs_of_loops(before)
    rest = (
        needed
        for node, needed in zip(projection.nodes, projection.bytes, strict=True)
        if not isinstance(node, Loop) or node.outputs in known
    )
    return max(rest, default=0)


def own_step(projection: Projection, before: Graph) -> int | None:
    """Return the position of the largest step at loops that `before` does not have."""
    known = _outputs_of_loops(before)
    own = [
        position
        for position, node in enumerate(projection.nodes)
        if isinstance(node, Loop) and node.outputs not in known
    ]
    return max(own, key=projection.bytes.__getitem__, default=None)


def own_loops(graph: Graph, before: Graph) -> list[Loop]:
    """Return the loops of `graph` that `before` does not have, in another chunk either."""
    known = _outputs_of_loops(before)
    loops = (node for node in graph.nodes if isinstance(node, Loop))
    return [loop for loop in loops if loop.outputs not in known]


def _outputs_of_loops(graph: Graph) -> set[tuple[Tensor, ...]]:
    return {node.outputs for node in graph.nodes if isinstance(node, Loop)}


def most_steps(graph: Graph) -> int:
    """Return a bound of the steps of a search.

    Each takes at least one node into a loop, or splits bodies of one: those of a loop once, and
    those of other nodes for as long as they need less. What is not used up by then is not worth it.
    """
    return 2 * len(graph.nodes) + 2


def _is_ordered(node: Node) -> bool:
    return any(tensor.nbytes >= CHAIN_BYTES for tensor in (*node.inputs, *node.outputs))


__all__ = ["Peak", "most_steps", "own_bytes", "own_loops", "own_step", "peak_of", "rest_bytes"]
