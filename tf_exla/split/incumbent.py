"""Branch and bound: candidates that the best one so far excludes get no chunks.

Most of the time of a candidate goes into its chunks. Without them, the tensors that are alive
around its new loops and in the rest of the program are already known: a lower bound of its bytes.
"""

from __future__ import annotations

from tf_exla.ir.graph import Graph
from tf_exla.split.context import SearchContext
from tf_exla.split.progress import Peak, own_loops, peak_of


class Incumbent:
    """The fewest bytes of the candidates so far, in the order in which the search compares them.

    The search takes the fewest bytes at the new loops, then the lowest peak. Once a candidate is
    within the budget, it takes the fastest instead. So only candidates that cannot be within the
    budget are excluded. This is active only in the bodies of loops and in a search for the
    smallest plan. Elsewhere `_ahead` may go on from a candidate that was not chosen.
    """

    def __init__(self, context: SearchContext, graph: Graph) -> None:
        self.context = context
        self.graph = graph
        self.own: int | None = None  # at the new loops; at least the budget
        self.peak: int | None = None  # if it is lower than that of the graph
        self.active = bool(context.depth or context.budget <= 0) and not context.options.trace

    def add(self, own: int, peak: int, high: Peak) -> None:
        """Compare the bytes of a candidate whose loops concatenate no large tensor."""
        if not self.active:
            return
        context, before = self.context, peak_of(self.context.projector, self.graph)
        if not (high < before or peak < context.working_set(self.graph)):
            return  # no progress
        own = max(own, context.budget)
        if self.own is None or own < self.own:
            self.own, self.peak = own, None
        if own == self.own and high.bytes < before.bytes:
            self.peak = peak if self.peak is None else min(self.peak, peak)

    def excludes(self, made: Graph) -> bool:
        """Return whether a graph is certain to be worse; its new loops have no chunks yet."""
        if not self.active or self.own is None:
            return False
        projector, budget = self.context.projector, self.context.budget
        held, overhead = projector.lifetimes(made).held, projector.overhead(made)
        new = frozenset(own_loops(made, self.graph))
        own = rest = 0
        for node, size in zip(made.nodes, held, strict=True):
            if node in new:
                own = max(own, size)
            elif node.subgraphs:  # chunks in it may still shrink
                rest = max(rest, size)
            else:
                rest = max(rest, size + projector.temporary(node))
        own, rest = own + overhead, rest + overhead
        if max(own, rest) <= budget:
            return False
        if max(own, budget) > self.own:
            return True
        return self.own == budget and self.peak is not None and rest > self.peak
