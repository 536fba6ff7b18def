"""Nodes that may run at the same time: the plan's order is only enforced where the peak needs it.

The projected peak assumes that the nodes of a plan run one after the other. Where the working set
is below the peak, a node need not wait for all nodes before it, so the runtime keeps other cores
busy. The peak stays the same.

Let the first m nodes be finished, and the next one not. Then at most the buffers that are alive
during the next one exist, and the results and temporary memory of later nodes that have started.
So node i waits for the first j nodes, with the smallest j for which this sum is within the peak for
all m from j to i. A result is computed in place of an operand only if no other node reads that any
more. This is certain if the node waits for all nodes before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.model.projection import Projection, Projector


class Place(NamedTuple):
    """The position of a node, and how many nodes of its graph must finish before it starts."""

    position: int
    after: int


def places(projector: Projector, graph: Graph) -> Mapping[Node, Place]:
    """Return the place of each node of a graph, and of the nodes in its loops and branches."""
    made = _Places(projector)
    projection = projector.project(graph)
    made.place(graph, projection, projection.working_set)
    return made.places


class _Places:
    """The places of nodes so far; `rooms`: the bytes that each graph may allocate."""

    def __init__(self, projector: Projector) -> None:
        self.projector = projector
        self.places: dict[Node, Place] = {}
        self.rooms: dict[Graph, int] = {}

    def place(self, graph: Graph, projection: Projection, room: int) -> None:
        """Place the nodes of a graph, which may allocate `room` bytes.

        If a graph is the body of several loops, the smallest of their rooms decides.
        """
        if room >= self.rooms.get(graph, room + 1):
            return
        self.rooms[graph] = room
        needs = self._needs(graph, projection)
        after = _waits(graph.nodes, projection.bytes, needs, room)
        for position, (node, count) in enumerate(zip(graph.nodes, after, strict=True)):
            self.places[node] = Place(position, count)
            spare = room - projection.bytes[position]
            if isinstance(node, Loop):
                spare //= node.parallel
            for _, sub in node.subgraphs:
                inner = self.projector.inside(node, sub)
                self.place(sub, inner, inner.working_set + spare)

    def _needs(self, graph: Graph, projection: Projection) -> list[_Need]:
        made = list(projection.temporary)
        sized = set()
        for tensor, size, first, _ in projection.lifetimes.spans:
            made[first] += size
            sized.add(tensor)
        in_place = [0] * len(made)
        for position, node in enumerate(graph.nodes):
            if node.op != "constant" and not self.projector.ops.aliases(node):
                in_place[position] = sum(t.nbytes for t in node.outputs if t not in sized)
        return list(map(_Need, made, in_place))


class _Need(NamedTuple):
    """The bytes that a node allocates, and those that it saves if it computes in place."""

    made: int
    in_place: int


def _waits(
    nodes: Sequence[Node], held: Sequence[int], needs: Sequence[_Need], room: int
) -> list[int]:
    """Return for each node how many nodes must finish before it starts.

    `held`: the bytes at each node if the nodes run in order. `room`: the bytes that may exist.
    """
    before = [0, *accumulate(map(sum, needs))]
    # base[m]: with m finished nodes, the bytes alive during the next one, minus the bytes allocated
    # by all nodes up to it. `largest` has values of m, in descending order of base[m].
    base: list[int] = []
    largest: deque[int] = deque()
    made, least = [], 0
    for position, node in enumerate(nodes):
        alone = bool(node.subgraphs) or node.stateful
        if alone or held[position] + needs[position].in_place > room:
            least = position
        while largest and (largest[0] < least or base[largest[0]] + before[position + 1] > room):
            least = max(least, largest.popleft() + 1)
        made.append(least)
        early = needs[position].in_place if least < position else 0
        base.append(held[position] + early - before[position + 1])
        while largest and base[largest[-1]] <= base[position]:
            largest.pop()
        largest.append(position)
        if alone:
            least = position + 1
    return made
