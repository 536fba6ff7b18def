"""Candidates for one step of the search: graphs in which a region of a large tensor is split."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.structure import structure_of
from tf_exla.model.cost import graph_seconds
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.split.chunks import has_loops
from tf_exla.split.context import SearchContext
from tf_exla.split.def_use import DefUse
from tf_exla.split.growth import grow
from tf_exla.split.incumbent import Incumbent
from tf_exla.split.large import AskedLarge, Large
from tf_exla.split.progress import (
    Peak,
    own_bytes,
    own_loops,
    own_step,
    peak_of,
    rest_bytes,
)
from tf_exla.split.region import RefusedSplit, Region
from tf_exla.split.repeating import compared_again, unrepeatable
from tf_exla.split.stages import Stages, arrange, rewrite
from tf_exla.split.symmetric_tiles import pair_graphs
from tf_exla.split.tiles import tile_at

Refusals = dict[tuple[Tensor, int, Node], RefusedSplit]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A graph with one region split, and the bytes that it needs.

    `peak`: the working set. `high`: its largest steps. `own`: the working set at the new loops.
    """

    graph: Graph
    peak: int
    high: Peak
    own: int
    concatenated: int  # bytes of the largest tensor that its loops concatenate, except outputs;
    # or add up: an operand of a product is computed in a loop only if no loop makes it
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


def candidates(
    context: SearchContext,
    graph: Graph,
    over: list[Tensor],
    refusals: Refusals,
    beside: int = SETTINGS.small_beside,
) -> Iterator[Candidate]:
    """Yield the graphs in which a region of one of the largest tensors is split.

    `over`: tensors to try first, above the user's threshold or slow to compute. Reasons that stop
    a region are added to `refusals`. Tensors `beside` times smaller than the split one are small.
    Loops are also split along another axis where one matrix of a batch is too large, or larger than
    the cache.
    """
    index = context.index(graph)
    seeds = _seeds(context.projector, index, over)
    yield from _with_tiles(context, list(_untiled(context, index, seeds, refusals, beside)))
    if context.options.uses("symmetry"):
        tensors = [seed for seed in seeds if not is_list(seed)]
        for pair in pair_graphs(context, index, tensors):
            yield measured(context.projector, pair, index, 0, None, Large(CHAIN_BYTES, None))


def _untiled(
    context: SearchContext, index: DefUse, seeds: list[Tensor], refusals: Refusals, beside: int
) -> Iterator[Candidate]:
    """Yield the graphs in which a region is split along one axis."""
    tried: set[object] = set()
    best = Incumbent(context, index.graph)
    for seed in seeds:
        bounds = [
            *(context.budget // part for part in SETTINGS.small_parts),
            seed.nbytes // beside,
            0,
        ]
        smalls = list(dict.fromkeys(max(bound, CHAIN_BYTES) for bound in bounds))
        for axis, size in enumerate(seed.axes or ()):
            if size is None or size <= 1:
                continue
            grown: list[AskedLarge] = []
            for small in smalls:
                if any(asked.answers_for(small) for asked in grown):  # the same region
                    continue
                is_large = Large(small, seed)
                grown.append(AskedLarge(is_large))
                for region in _regions(index, grown[-1], seed, axis):
                    if (region.key, region.extent) in tried:
                        continue
                    tried.add((region.key, region.extent))
                    one = _split(context, index, region, is_large, best, refusals)
                    if one is not None:
                        yield one


def _regions(
    index: DefUse, is_large: Callable[[Tensor], bool], seed: Tensor, axis: int
) -> Iterator[Region]:
    """Yield the region of an axis, and that without reductions that enlarge what they read."""
    region = grow(index, seed, axis, is_large, remake=True)
    if region is None:
        return
    yield region
    enlarging = region.enlarging()
    if enlarging:
        smaller = grow(
            index, seed, axis, is_large, remake=True, admits=lambda node, _: node not in enlarging
        )
        if smaller is not None:
            yield smaller


def _split(
    context: SearchContext,
    index: DefUse,
    region: Region,
    is_large: Large,
    best: Incumbent,
    refusals: Refusals,
) -> Candidate | None:
    """Return the candidate of a region; None if it is refused or cannot be the best."""
    for refusal in region.refusals:
        refusals[refusal.tensor, refusal.axis, refusal.node] = refusal
    stages = arrange(index, region, is_large)
    again = unrepeatable(index, stages)
    if again is not None:
        refusals[again.tensor, again.axis, again.node] = again
        return None
    context.projector.tick()
    stages, graphs = _built(index, stages)
    if all(map(best.excludes, graphs)):
        return None
    one = _fitted(context, index, stages, graphs, is_large)
    if not fixes_much(context, one):
        best.add(one.own, one.peak, one.high)
    return one


def _with_tiles(context: SearchContext, found: list[Candidate]) -> Iterator[Candidate]:
    """Yield candidates: with tiles if their loops exceed the budget; for speed, with and without.

    Tiles change only the new loops. If the rest of a program needs more than the budget, none are
    tried where they would gain little now (later steps split what is then at the peak), or where
    the rest needs more than another candidate in total: tiles would not get it chosen.
    """
    projector, budget = context.projector, context.budget
    fixed = {one: fixes_much(context, one) for one in found}
    lowest_high = min((one.high.bytes for one in found if not fixed[one]), default=0)
    tiles: dict[Candidate, Candidate | None] = {}
    rests = {one: rest_bytes(projector.project(one.graph), one.index.graph) for one in found}
    for one in sorted(found, key=rests.__getitem__):
        extent = one.stages.region.extent if one.stages is not None else 0
        for_speed = one.own <= budget
        if extent > SETTINGS.batch or not (context.options.cached or not for_speed):
            continue
        loose = projector.project(one.graph).loose
        rest = rests[one] + projector.overhead(one.graph)
        gains_little = one.own - rest <= one.own // SETTINGS.negligible
        if rest > budget and (gains_little or rests[one] - loose > lowest_high):
            continue
        tiles[one] = made = _tiled(context, one, for_speed)
        if made is not None and not fixed[one]:
            lowest_high = min(lowest_high, made.high.bytes)
    for one in found:
        tiled = tiles.get(one)
        if tiled is None or one.own <= budget:
            yield one
        if tiled is not None:
            yield tiled


def fixes_much(context: SearchContext, one: Candidate) -> bool:
    """Return whether the loops concatenate a large tensor, which is never split again."""
    program = context.working_set(one.index.graph)
    most = max(context.budget // SETTINGS.fixed_of_budget, program // SETTINGS.fixed_of_program)
    return one.concatenated > most


def repeated(context: SearchContext, graph: Graph, last: Candidate) -> Candidate | None:
    """Split a part that equals the part split last in the same way.

    Return None if no such part is at the peak, or if its loops would differ.
    """
    if last.stages is None or any(map(has_loops, last.own_loops())):
        return None
    before = last.stages.region
    wanted = [structure_of(loop) for loop in last.own_loops()]
    index = context.index(graph)
    for seed in _seeds(context.projector, index, [], among=before.seed):
        is_large = Large(last.is_large.small, seed)
        for region in _regions(index, is_large, seed, before.axis):
            if (len(region.members), region.extent) != (len(before.members), before.extent):
                continue
            stages = arrange(index, region, is_large)
            if unrepeatable(index, stages) is not None:
                continue
            made = evaluate(context, index, stages, is_large)
            if [structure_of(loop) for loop in made.own_loops()] == wanted:
                return made
    return None


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


def _tiled(context: SearchContext, one: Candidate, for_speed: bool) -> Candidate | None:
    projection = context.projector.project(one.graph)
    position = own_step(projection, one.index.graph)
    graph = tile_at(
        context, one.graph, projection.peak_step if position is None else position, for_speed
    )
    if graph is None:
        return None
    return measured(context.projector, graph, one.index, one.concatenated, one.stages, one.is_large)


def _seeds(
    projector: Projector, index: DefUse, over: list[Tensor], among: Tensor | None = None
) -> list[Tensor]:
    """Return `over` and the largest tensors alive at the peak, one of each shape and dtype.

    `among`: return only tensors of the shape and dtype of this tensor, more than one of them.
    """
    live = [tensor for tensor, _ in projector.project(index.graph).live]
    seeds: list[Tensor] = []
    for tensor in (*over, *live):
        producer = index.producer.get(tensor)
        axes = tensor.axes
        if producer is None or isinstance(producer, Loop) or axes is None or None in axes:
            continue
        if among is not None:
            if (axes, tensor.dtype) == (among.axes, among.dtype):
                seeds.append(tensor)
        elif all((axes, tensor.dtype) != (s.axes, s.dtype) for s in seeds):
            seeds.append(tensor)
    # Lists are counted separately: perhaps no loop can split them.
    lists = [one for one in seeds if is_list(one)]
    return [*[one for one in seeds if not is_list(one)][: SETTINGS.seeds], *lists[: SETTINGS.seeds]]


def evaluate(context: SearchContext, index: DefUse, stages: Stages, is_large: Large) -> Candidate:
    """Build the loops of a region's stages: the fastest that hold the budget, else the lowest."""
    stages, graphs = _built(index, stages)
    return _fitted(context, index, stages, graphs, is_large)


def _built(index: DefUse, stages: Stages) -> tuple[Stages, list[Graph]]:
    """Return the graphs with loops for a region, without chunks, and what was built.

    The loops keep the bits of numbers that are compared again.
    """
    stages = dataclasses.replace(stages, exact=bool(compared_again(index, stages)))
    return stages, list(rewrite(index, stages))


def _fitted(
    context: SearchContext, index: DefUse, stages: Stages, graphs: list[Graph], is_large: Large
) -> Candidate:
    """Return the fastest of the graphs that hold the budget with chunks, else the lowest."""
    concatenated = max(
        (
            tensor.nbytes
            for stage in stages.stages
            for tensor in stage.results
            if tensor not in index.outputs and (context.sinks or tensor in stages.region.slots)
        ),
        default=0,
    )
    made = []
    for graph in graphs:
        fitted = context.fitted(graph)
        made.append(measured(context.projector, fitted, index, concatenated, stages, is_large))
    holding = [one for one in made if one.peak <= context.budget]
    if holding:
        return min(holding, key=lambda one: one.seconds)
    alike = len({one.high for one in made}) == 1
    return lowest_of_its_own(made, context.budget) if alike else lowest(made)


def lowest(found: list[Candidate]) -> Candidate:
    """Return the candidate with the lowest peak, the fastest of several."""
    peak = min(one.peak for one in found)
    return _fastest([one for one in found if one.peak == peak])


def lowest_of_its_own(found: list[Candidate], budget: int) -> Candidate:
    """Return the fastest candidate whose `own` holds the budget, else that with the least `own`."""
    least = min(max(one.own, budget) for one in found)
    return _fastest([one for one in found if one.own <= least])


def _fastest(found: list[Candidate]) -> Candidate:
    return found[0] if len(found) == 1 else min(found, key=lambda one: one.seconds)
