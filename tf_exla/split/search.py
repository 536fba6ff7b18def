"""The search for a plan whose projected peak is within the budget.

While the projected peak is above the budget, take the largest tensors alive at the peak, grow the
region of each of their axes, and compare the programs that result. Go on with the fastest program
within the budget. If there is none, go on with one of a lower peak whose new loops need the
fewest bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_exla.ir.graph import Graph, Loop, Tensor
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.split.candidate import Candidate, fixes_much, lowest, lowest_of_its_own
from tf_exla.split.candidates import Refusals, candidates, repeated
from tf_exla.split.context import SearchContext
from tf_exla.split.invariants import compute_in_loops, large_bytes
from tf_exla.split.progress import most_steps, peak_of
from tf_exla.split.regions.region import RefusedSplit
from tf_exla.split.saving import keep, most_saved
from tf_exla.split.tiles import tile_at, tile_for_speed
from tf_exla.split.trace import Step, Trace, compare


@dataclass(frozen=True)
class Splitting:
    """The result of a search: the graph, the refused splits with their reasons, and the steps."""

    graph: Graph
    refusals: tuple[RefusedSplit, ...]
    steps: tuple[Step, ...] = ()


def split(
    projector: Projector,
    graph: Graph,
    budget: int,
    options: Options,
    sinks: int = 0,
    most_seconds: float = math.inf,
) -> Splitting:
    """Split large tensors until the working set is at most `budget` bytes, as far as possible.

    `sinks`: operands of at least so many bytes that a loop reads whole may be computed in its body
    (`invariants.py`); 0: none. `most_seconds`: the search ends early if the program would take
    longer.
    """
    context = search_context(projector, budget, options, sinks=sinks)
    return _Search(replace(context, most_seconds=most_seconds)).run(graph)


def search_context(
    projector: Projector,
    budget: int,
    options: Options,
    depth: int = 0,
    levels: int = SETTINGS.levels,
    sinks: int = 0,
) -> SearchContext:
    def split_body(body: Graph, room: int, levels: int, sinks: int) -> Graph:
        inner = search_context(projector, room, options, depth + 1, levels, sinks)
        return _Search(inner).run(body).graph

    return SearchContext(projector, budget, options, depth, levels, sinks, split_body)


class _TooSlowError(Exception):
    """The program would take longer than the search may accept."""


class _Search:
    """One search for a plan within a budget.

    `ahead`: if a candidate above the budget is faster than the chosen one, search on from it, too
    (`_ahead`).
    """

    def __init__(self, context: SearchContext, ahead: bool = True) -> None:
        self.context = context
        self.projector = context.projector
        self.ahead = ahead and not context.depth
        self.refusals: Refusals = {}
        self.trace = Trace(context.projector, enabled=not context.depth)
        self.last: Candidate | None = None  # the choice of the step before

    def run(self, graph: Graph) -> Splitting:
        """Split a graph until it is within the budget, or no further split is progress."""
        context = self.context
        smallest = graph
        for _ in range(most_steps(graph)):
            graph = context.fitted(graph)
            smallest = min(smallest, graph, key=context.working_set)
            over = _over_threshold(graph, context.options)
            if context.holds(graph) and not over:
                graph = tile_for_speed(context, graph)
                break
            made = None if over else self._repeated(graph)
            try:
                made = made or self._split(graph, over) or self._inside(graph) or self._sunk(graph)
            except _TooSlowError:
                break
            if made is None:
                break
            graph = made
        holds = context.working_set(graph) <= max(context.budget, context.working_set(smallest))
        refusals = tuple(self.refusals.values())
        return Splitting(graph if holds else smallest, refusals, self.trace.steps())

    def _repeated(self, graph: Graph) -> Graph | None:
        """Split a part that equals the one split last, in the same way."""
        again = None if self.last is None else repeated(self.context, graph, self.last)
        # The last step, which reaches the budget, is chosen by time among all candidates.
        if again is None or again.peak <= self.context.budget:
            return None
        if not self._is_progress(again.graph, graph):
            return None
        self.last = again
        self.trace.again(again.graph)
        return keep(self.context, again).graph

    def _split(self, graph: Graph, over: list[Tensor]) -> Graph | None:
        """Split the best of all regions; `over`: tensors above the user's threshold."""
        context = self.context
        for beside in (SETTINGS.small_beside, SETTINGS.small_last):
            found = list(candidates(context, graph, over, self.refusals, beside))
            self.last = best = self._chosen(graph, found, bool(over))
            if best is not None:
                break
        else:
            return None
        if best.peak > context.budget and fixes_much(context, best):
            sunk = self._sunk(graph)
            if sunk is not None:
                self.last = None
                return sunk
        least = max(best.seconds - most_saved(context, best), best.seconds / SETTINGS.slow)
        if least > context.most_seconds:
            raise _TooSlowError
        traced = context.options.trace and not context.depth
        self.trace.split(best, graph, compare(context, found, best) if traced else ())
        made = keep(context, best).graph
        if self.ahead and best.peak <= context.budget:
            further = _ahead(context, made, found)
            if further is not made:
                self.trace.take("split once more, for speed", made, further)
            made = further
        return made

    def _chosen(self, graph: Graph, found: list[Candidate], forced: bool) -> Candidate | None:
        """Return the fastest candidate within the budget, else one whose loops need the least.

        The latter lowers the peak, or lets fewer nodes of the plan reach it. Later steps can split
        other parts of the program, but new loops only into tiles. So candidates are compared by
        the bytes of their new loops first, then by the peak.

        Concatenated results of loops are never split again. So a candidate that concatenates a
        large tensor is taken only if all do, however low its peak is. `forced`: consider all
        candidates, since a tensor is above the user's threshold.
        """
        context = self.context
        holding = [one for one in found if one.peak <= context.budget]
        if holding:
            return min(holding, key=lambda one: one.seconds)
        high = peak_of(self.projector, graph)
        useful = [one for one in found if forced or self._is_useful(one, graph)]
        free = [one for one in useful if not fixes_much(context, one)] or useful
        if not free:
            return None
        least = min(max(one.own, context.budget) for one in free)
        free = [one for one in free if one.own <= least]
        if any(one.high.bytes < high.bytes for one in free):
            return lowest(free)
        return lowest_of_its_own(free, context.budget)

    def _inside(self, graph: Graph) -> Graph | None:
        """Split the loop at the peak along another axis, or the sub-graphs of a node there."""
        position = self.projector.project(graph).peak_step
        made = tile_at(self.context, graph, position) or self._descended(graph)
        if made is None:
            return None
        made = self.context.fitted(made)
        if not self._is_progress(made, graph):  # `fitted` may have enlarged other chunks
            return None
        self.trace.take("split inside of a loop or a choice", graph, made)
        return made

    def _sunk(self, graph: Graph) -> Graph | None:
        """Compute a large tensor in the loops that read it whole."""
        if not self.context.sinks:
            return None
        made = compute_in_loops(self.context, graph, lambda one: self._is_progress(one, graph))
        if made is None:
            return None
        self.trace.take("computed in loops that read it whole", graph, made)
        return made

    def _descended(self, graph: Graph) -> Graph | None:
        """Split the sub-graphs of the node at the peak, within the bytes that the budget leaves.

        Return None if that does not reduce the bytes that the node allocates.
        """
        context, projector = self.context, self.projector
        projection = projector.project(graph)
        node = projection.peak_node
        if node is None or isinstance(node, Loop) or not node.subgraphs:
            return None
        step = projection.step(projection.peak_step)
        room = context.room_inside(graph, projection.peak_step)

        def inside(sub: Graph) -> Graph:
            budget = room + projector.overhead(sub)
            found = _Search(replace(context, budget=budget)).run(sub)
            self.refusals.update({(r.tensor, r.axis, r.node): r for r in found.refusals})
            return found.graph

        made = with_subgraphs(node, inside)
        if projector.temporary(made) >= step.temporary:
            return None
        return graph.replace(nodes=tuple(made if one is node else one for one in graph.nodes))

    def _is_useful(self, one: Candidate, graph: Graph) -> bool:
        """Return whether a candidate is progress, or leads to loops that compute their operands.

        Such loops (`_sunk`) lower the peak only when no large operand is left outside. So a
        candidate with fewer bytes of large tensors is useful even if its peak is not lower.
        """
        if self._is_progress(one.graph, graph):
            return True
        least = self.context.sinks
        if not least or self.context.depth or fixes_much(self.context, one):
            return False
        return large_bytes(one.graph, least) < large_bytes(graph, least)

    def _is_progress(self, made: Graph, graph: Graph) -> bool:
        if self.context.working_set(made) < self.context.working_set(graph):
            return True
        return peak_of(self.projector, made) < peak_of(self.projector, graph)


def _ahead(context: SearchContext, graph: Graph, found: Sequence[Candidate]) -> Graph:
    """Return a faster graph within the budget that takes more splits than `graph`, or `graph`.

    Only the fastest of the candidates above the budget is searched on from.
    """
    most = SETTINGS.margin * context.seconds(graph)
    more = [one for one in found if one.peak > context.budget and one.seconds < most]
    if not more:
        return graph
    first = min(more, key=lambda one: one.seconds)
    made = graph
    with context.projector.effort.for_speed():
        made = _Search(context, ahead=False).run(first.graph).graph
    return made if context.holds(made) and context.seconds(made) < most else graph


def _over_threshold(graph: Graph, options: Options) -> list[Tensor]:
    threshold = options.tensor_size_threshold
    if threshold is None:
        return []
    return [
        tensor
        for node in graph.nodes
        if not isinstance(node, Loop)
        for tensor in node.outputs
        if tensor.nbytes > threshold and tensor not in graph.outputs
    ]
