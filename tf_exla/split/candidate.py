"""One candidate for a step of the search, and the order of candidates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tf_exla.ir.graph import Graph, Loop
from tf_exla.model.cost import graph_seconds
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.stages import Stages
from tf_exla.split.progress import Peak, own_bytes, own_loops, peak_of
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.large import Large


@dataclass(frozen=True, eq=False)
class Candidate:
    """A graph with one region split, and the bytes that it needs.

    `peak`: the working set, in bytes. `high`: the bytes and the number of the largest steps of the
    plan. `own`: the largest working set at the new loops. `index`: the index of the graph before
    the split. `is_large`: the tensors that counted as large when the region was grown.
    """

    graph: Graph
    peak: int
    high: Peak
    own: int
    # Bytes of the largest tensor that the new loops concatenate, other than outputs of the graph.
    # If loops may compute operands (`SearchContext.sinks`), sums over chunks count as well: an
    # operand is moved into a loop only if no loop has produced it.
    concatenated: int
    index: DefUse
    stages: Stages | None  # None where a pair of axes is split: nothing can be kept
    is_large: Large

    def own_loops(self) -> list[Loop]:
        """Return the new loops: those that the index's graph does not have."""
        return own_loops(self.graph, self.index.graph)

    @cached_property
    def seconds(self) -> float:
        """The estimated time, computed on first use."""
        return graph_seconds(self.index.ops, self.graph)


def measured(
    projector: Projector,
    graph: Graph,
    index: DefUse,
    concatenated: int,
    stages: Stages | None,
    is_large: Large,
) -> Candidate:
    """Return the candidate for a graph in which a region of the index's graph is split."""
    peak, high = projector.working_set(graph), peak_of(projector, graph)
    own = own_bytes(projector, graph, index.graph)
    return Candidate(graph, peak, high, own, concatenated, index, stages, is_large)


def fixes_much(context: SearchContext, one: Candidate) -> bool:
    """Return whether the loops concatenate a large tensor, which is never split again."""
    program = context.working_set(one.index.graph)
    most = max(context.budget // SETTINGS.fixed_of_budget, program // SETTINGS.fixed_of_program)
    return one.concatenated > most


def lowest(found: list[Candidate]) -> Candidate:
    """Return the candidate with the lowest peak, or the fastest of several with that peak."""
    peak = min(one.peak for one in found)
    return _fastest([one for one in found if one.peak == peak])


def lowest_of_its_own(found: list[Candidate], budget: int) -> Candidate:
    """Return the fastest candidate with `own` of at most `budget`, else that of the least `own`."""
    least = min(max(one.own, budget) for one in found)
    return _fastest([one for one in found if one.own <= least])


def _fastest(found: list[Candidate]) -> Candidate:
    return found[0] if len(found) == 1 else min(found, key=lambda one: one.seconds)
