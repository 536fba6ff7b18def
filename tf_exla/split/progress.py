"""Progress: what a step of the search must achieve if several parts of a program have one peak.

The peak alone does not show progress. If the first of two kernel matrices of one size is split,
the second still needs as much memory, and the new loops need a few bytes more for their nodes. So
the steps of the plan at the peak are counted as well, and the bytes of the new loops are compared
apart from the rest of the program.
"""

from __future__ import annotations

from typing import NamedTuple

from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projection, Projector


class Peak(NamedTuple):
    """The largest bytes of any step, and the number of such steps; compared in this order.

    A step is a node of the plan. Small tensors and the overhead of nodes, which count for the whole
    run, are left out. The runtime orders only nodes that touch a large tensor (`CHAIN_BYTES`), so
    only these are counted.
    """

    bytes: int
    steps: int


def peak_of(projector: Projector, graph: Graph) -> Peak:
    """Return the bytes of a graph's largest steps, and their number."""
    projection = projector.project(graph)
    most = projection.working_set
    steps = sum(
        needed == most and _is_ordered(node)
        for node, needed in zip(projection.nodes, projection.bytes, strict=True)
    )
    return Peak(most - projection.loose, steps)


def own_bytes(projector: Projector, graph: Graph, before: Graph) -> int:
    """Return the largest working set at loops of `graph` that `before` does not have.

    A loop that only got another chunk is not new.
    """
    position = own_step(projector.project(graph), before)
    if position is None:
        return 0
    return projector.project(graph).bytes[position] + projector.overhead(graph)


def rest_bytes(projection: Projection, before: Graph) -> int:
    """Return the bytes of the largest step outside the loops that `before` does not have."""
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
    """Return the loops of `graph` that `before` does not have, not even with another chunk."""
    known = _outputs_of_loops(before)
    loops = (node for node in graph.nodes if isinstance(node, Loop))
    return [loop for loop in loops if loop.outputs not in known]


def _outputs_of_loops(graph: Graph) -> set[tuple[Tensor, ...]]:
    return {node.outputs for node in graph.nodes if isinstance(node, Loop)}


def most_steps(graph: Graph) -> int:
    """Return the number of steps after which a search is ended.

    Each step moves at least one node into a loop, or splits the bodies of one node. The bodies of a
    loop are split once; those of a While or a choice, as long as they then need less memory.
    """
    return 2 * len(graph.nodes) + 2


def _is_ordered(node: Node) -> bool:
    return any(tensor.nbytes >= CHAIN_BYTES for tensor in (*node.inputs, *node.outputs))


__all__ = ["Peak", "most_steps", "own_bytes", "own_loops", "own_step", "peak_of", "rest_bytes"]
