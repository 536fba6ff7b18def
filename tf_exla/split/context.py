"""The context of one search: projector, budget, options, and how bodies are split."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tf_exla.ir.graph import Graph
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, carried_bytes
from tf_exla.split.loops.chunks import fit_loops
from tf_exla.split.regions.def_use import DefUse


@dataclass(frozen=True, eq=False)
class SearchContext:
    """The context of one search.

    `budget`: upper bound of the working set, in bytes. `depth`: number of loops around the graph.
    `levels`: how deeply loops may be nested, not counting loops over a batch.
    `sinks`: operands of at least so many bytes that a loop reads whole may be computed in its body;
    0: none. `split_body(body, budget, levels, sinks)` returns the body of a loop, split.
    `most_seconds`: the search ends when the program is certain to take longer.
    """

    projector: Projector
    budget: int
    options: Options
    depth: int
    levels: int
    sinks: int
    split_body: Callable[[Graph, int, int, int], Graph]
    most_seconds: float = math.inf

    def index(self, graph: Graph) -> DefUse:
        """Index a graph."""
        return DefUse(graph, self.projector.ops, self.projector.made)

    def working_set(self, graph: Graph) -> int:
        """Return the working set of a graph."""
        return self.projector.working_set(graph)

    def holds(self, graph: Graph) -> bool:
        """Return whether the working set of a graph is within the budget."""
        return self.working_set(graph) <= self.budget

    def seconds(self, graph: Graph) -> float:
        """Return the estimated time of a graph."""
        return graph_seconds(self.projector.ops, graph)

    def fitted(self, graph: Graph) -> Graph:
        """Return the graph with the best chunks for which its working set is within the budget."""
        return fit_loops(self.projector, graph, self.budget, self.options)

    def room_at(self, graph: Graph, position: int) -> int:
        """Return the bytes that the budget leaves for temporaries of the node at `position`."""
        held = self.projector.lifetimes(graph).held[position]
        return self.budget - self.projector.overhead(graph) - held

    def room_inside(self, graph: Graph, position: int) -> int:
        """Return the bytes that the budget leaves to the sub-graphs of the node at `position`."""
        carried = carried_bytes(graph.nodes[position], self.projector.sizes)
        return max(self.room_at(graph, position) - carried, 0)
