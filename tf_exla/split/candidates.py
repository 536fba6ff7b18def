"""Candidates for one step of the search: graphs in which a region of a large tensor is split."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.structure import structure_of
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.split.candidate import Candidate, fixes_much, lowest, lowest_of_its_own, measured
from tf_exla.split.context import SearchContext
from tf_exla.split.incumbent import Incumbent
from tf_exla.split.loops.chunks import has_loops
from tf_exla.split.loops.repeating import compared_again, unrepeatable
from tf_exla.split.loops.stages import Stages, arrange, rewrite
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow
from tf_exla.split.regions.large import AskedLarge, Large
from tf_exla.split.regions.region import RefusedSplit, Region
from tf_exla.split.symmetric.symmetric_tiles import pair_graphs
from tf_exla.split.tile_candidates import with_tiles

Refusals = dict[tuple[Tensor, int, Node], RefusedSplit]


def candidates(
    context: SearchContext,
    graph: Graph,
    over: list[Tensor],
    refusals: Refusals,
    beside: int = SETTINGS.small_beside,
) -> Iterator[Candidate]:
    """Yield the graphs in which a region of one of the largest tensors is split.

    `over`: tensors to try first, above the user's threshold or slow to compute. `refusals`: the
    reasons why nodes could not be split are added to it. `beside`: tensors that are smaller than
    the split one by this factor count as small. If one matrix of a batch exceeds the budget or the
    cache, its loops are also split along another axis.
    """
    index = context.index(graph)
    seeds = _seeds(context.projector, index, over)
    yield from with_tiles(context, list(_untiled(context, index, seeds, refusals, beside)))
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
    """Yield the region of an axis, then the region that ends before its enlarging reductions.

    See `Region.enlarging`.
    """
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
    """Return the candidate of a region; None if it is refused, or certainly worse than `best`."""
    for refusal in region.refusals:
        refusals[refusal.tensor, refusal.axis, refusal.node] = refusal
    stages = arrange(index, region, is_large)
    again = unrepeatable(index, stages)
    if again is not None:
        refusals[again.tensor, again.axis, again.node] = again
        return None
    context.projector.effort.tick()
    stages, graphs = _built(index, stages)
    if all(map(best.excludes, graphs)):
        return None
    one = _fitted(context, index, stages, graphs, is_large)
    if not fixes_much(context, one):
        best.add(one.own, one.peak, one.high)
    return one


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


def _seeds(
    projector: Projector, index: DefUse, over: list[Tensor], among: Tensor | None = None
) -> list[Tensor]:
    """Return `over` and the largest tensors alive at the peak, one of each shape and dtype.

    `among`: instead return all of these tensors that have the shape and dtype of this one.
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
    # Lists have a quota of their own: if none can be split, other seeds are still tried.
    lists = [one for one in seeds if is_list(one)]
    return [*[one for one in seeds if not is_list(one)][: SETTINGS.seeds], *lists[: SETTINGS.seeds]]


def evaluate(context: SearchContext, index: DefUse, stages: Stages, is_large: Large) -> Candidate:
    """Return the candidate whose loops compute the stages of a region.

    Of the graphs with and without merged stages, it has the fastest within the budget, else the
    one that needs the fewest bytes.
    """
    stages, graphs = _built(index, stages)
    return _fitted(context, index, stages, graphs, is_large)


def _built(index: DefUse, stages: Stages) -> tuple[Stages, list[Graph]]:
    """Return `stages` with `exact` set, and the graphs with their loops, without chunks.

    They are exact if recomputed numbers are compared with completed ones (`repeating.py`).
    """
    stages = dataclasses.replace(stages, exact=bool(compared_again(index, stages)))
    return stages, list(rewrite(index, stages))


def _fitted(
    context: SearchContext, index: DefUse, stages: Stages, graphs: list[Graph], is_large: Large
) -> Candidate:
    """Give the loops of the graphs their chunks; return the best of them as a candidate.

    That is the fastest within the budget, else the one that needs the fewest bytes.
    """
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
