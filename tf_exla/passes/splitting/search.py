"""The search for a plan that holds the budget: which axis to split, and what to keep.

While the projected peak is above the budget: take the largest tensors alive at the peak, grow the
region of each of their axes, and compare the programs that result: the fastest among those that
hold the budget, else the one with the lowest peak.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tf_exla.cost import graph_seconds, node_seconds
from tf_exla.graph import Graph, Loop, Node, Tensor, with_subgraphs
from tf_exla.memory import CHAIN_BYTES, Projector, carried_bytes
from tf_exla.options import Options
from tf_exla.passes.splitting.chunks import fit_loops, room_at
from tf_exla.passes.splitting.index import Index
from tf_exla.passes.splitting.pairs import pair_graphs
from tf_exla.passes.splitting.partly import keep_partly, parts_to_try
from tf_exla.passes.splitting.region import Refusal, grow
from tf_exla.passes.splitting.repeating import compared_again, unrepeatable
from tf_exla.passes.splitting.stages import Stages, arrange, rewrite
from tf_exla.passes.splitting.tiles import FEW_MATRICES, tile_at_peak, tile_for_speed

MAX_STEPS = 24
SEEDS = 3
KEEP_TRIALS = 10
AHEAD = 0.9
"""Of the time that is estimated: a step that does not hold the budget must promise that much."""
PARTLY_TRIALS = 1
PARTLY_GAIN = 0.98
"""Of the time that is estimated; twice as many loops must be worth it."""
SMALL_FRACTIONS = (50, 2000)
"""A tensor is small, and sliced rather than recomputed, below these fractions of the budget."""
BESIDE = 32
"""What is smaller than this part of the seed is small, however tight the limit is."""


Refusals = dict[tuple[Tensor, int, Node], Refusal]


@dataclass(frozen=True)
class Splitting:
    """The result of a search: the graph, and why what was not split was not."""

    graph: Graph
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True)
class _Candidate:
    graph: Graph
    peak: int
    concatenated: int  # bytes of the largest tensor that its loops concatenate, outputs left out
    index: Index
    stages: Stages | None  # None where a pair of axes is split: nothing can be kept
    is_large: Callable[[Tensor], bool]

    @cached_property
    def seconds(self) -> float:
        """The estimated time, where it is asked for."""
        return graph_seconds(self.index.ops, self.graph)


def split(
    projector: Projector,
    graph: Graph,
    budget: int,
    options: Options,
    depth: int = 0,
    ahead: bool = True,
) -> Splitting:
    """Split large tensors until the working set holds `budget` bytes, as far as possible.

    `depth`: loops around the graph; bodies are split as well up to `MAX_DEPTH` loops.
    `ahead`: a step that does not hold the budget yet, but is faster, is followed to its end.
    """
    refusals: Refusals = {}

    def split_body(body: Graph, budget: int) -> Graph:
        return split(projector, body, budget, options, depth + 1).graph

    def tile(graph: Graph) -> Graph | None:
        return tile_at_peak(projector, graph, budget, options, depth, split_body)

    for _ in range(MAX_STEPS):
        graph = fit_loops(projector, graph, budget, options)
        peak = projector.working_set(graph)
        over = _over_threshold(graph, options)
        if peak <= budget and not over:
            graph = tile_for_speed(projector, graph, budget, options, depth, split_body)
            break
        found = list(_candidates(projector, graph, budget, options, over, refusals, tile))
        best = _choose(found, budget, peak, bool(over))
        if best is not None:
            graph = _keep(projector, best, budget, options).graph
            if ahead and not depth and best.peak <= budget:
                graph = _ahead(projector, graph, found, budget, options)
            continue
        inner = tile(graph)
        if inner is None:
            inner = _descend(projector, graph, budget, options, depth, refusals)
        if inner is None:
            break
        graph = inner
    return Splitting(graph, tuple(refusals.values()))


def _ahead(
    projector: Projector,
    graph: Graph,
    found: list[_Candidate],
    budget: int,
    options: Options,
) -> Graph:
    """Return `graph`, which holds the budget, or a faster one that takes one split more."""
    seconds = graph_seconds(projector.ops, graph)
    more = [one for one in found if one.peak > budget and one.seconds < AHEAD * seconds]
    if not more:
        return graph
    first = min(more, key=lambda one: one.seconds)
    made = split(projector, first.graph, budget, options, ahead=False).graph
    holds = projector.working_set(made) <= budget
    return made if holds and graph_seconds(projector.ops, made) < AHEAD * seconds else graph


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


def _choose(found: list[_Candidate], budget: int, peak: int, forced: bool) -> _Candidate | None:
    """Return the fastest that holds the budget; else the lowest peak.

    What a loop concatenates is never split again. So a step that fixes a large tensor comes after
    those that do not, however low its peak is.
    """
    holding = [one for one in found if one.peak <= budget]
    if holding:
        return min(holding, key=lambda one: one.seconds)
    fixed = max(budget // 4, peak // 16)
    useful = [one for one in found if one.peak < peak or forced]
    free = [one for one in useful if one.concatenated <= fixed]
    return _lowest(free or useful) if useful else None


def _lowest(found: list[_Candidate]) -> _Candidate:
    """Return the lowest peak; the fastest of several."""
    peak = min(one.peak for one in found)
    ties = [one for one in found if one.peak == peak]
    return ties[0] if len(ties) == 1 else min(ties, key=lambda one: one.seconds)


def _candidates(
    projector: Projector,
    graph: Graph,
    budget: int,
    options: Options,
    over: list[Tensor],
    refusals: Refusals,
    tile: Callable[[Graph], Graph | None],
) -> Iterator[_Candidate]:
    index = Index(graph, projector.ops)
    tried: set[object] = set()
    seeds = _seeds(projector, index, over)
    for seed in seeds:
        bounds = [*(budget // part for part in SMALL_FRACTIONS), seed.nbytes // BESIDE, 0]
        smalls = list(dict.fromkeys(max(bound, CHAIN_BYTES) for bound in bounds))
        for axis, size in enumerate(seed.dims):
            if size <= 1:
                continue
            for small in smalls:
                is_large = _larger_than(small, seed)
                region = grow(index, seed, axis, is_large)
                if region is None or (region.key, region.extent) in tried:
                    continue
                tried.add((region.key, region.extent))
                for refusal in region.refusals:
                    refusals[refusal.tensor, refusal.axis, refusal.node] = refusal
                stages = arrange(index, region, is_large)
                again = unrepeatable(index, stages)
                if again is not None:
                    refusals[again.tensor, again.axis, again.node] = again
                    continue
                stages = dataclasses.replace(stages, exact=bool(compared_again(index, stages)))
                made = _evaluate(projector, index, stages, is_large, budget, options)
                if made.peak > budget and region.extent <= FEW_MATRICES:
                    made = _tiled(projector, made, tile)
                yield made
    if options.uses("symmetry"):
        for pair in pair_graphs(projector, index, seeds, budget, options):
            peak = projector.working_set(pair)
            yield _Candidate(pair, peak, 0, index, None, _larger_than(CHAIN_BYTES, None))


def _tiled(
    projector: Projector, one: _Candidate, tile: Callable[[Graph], Graph | None]
) -> _Candidate:
    """Split the matrices of a batch as well, where one of them is too large."""
    graph = tile(one.graph)
    if graph is None:
        return one
    return dataclasses.replace(one, graph=graph, peak=projector.working_set(graph))


def _larger_than(small: int, seed: Tensor | None) -> Callable[[Tensor], bool]:
    return lambda tensor: tensor is seed or tensor.nbytes > small


def _seeds(projector: Projector, index: Index, over: list[Tensor]) -> list[Tensor]:
    """The largest tensors alive at the peak, and those above the user's threshold."""
    live = [tensor for tensor, _ in projector.project(index.graph).live]
    seeds: list[Tensor] = []
    for tensor in (*over, *live):
        producer = index.producer.get(tensor)
        if producer is None or isinstance(producer, Loop) or not tensor.is_static:
            continue
        if all((tensor.shape, tensor.dtype) != (s.shape, s.dtype) for s in seeds):
            seeds.append(tensor)
    return seeds[:SEEDS]


def _evaluate(
    projector: Projector,
    index: Index,
    stages: Stages,
    is_large: Callable[[Tensor], bool],
    budget: int,
    options: Options,
) -> _Candidate:
    guess = max(1, min(stages.region.extent, 64)) if budget > 0 else 1
    concatenated = max(
        (
            tensor.nbytes
            for stage in stages.stages
            for tensor in stage.results
            if tensor not in index.outputs and tensor in stages.region.slots
        ),
        default=0,
    )
    made = []
    for graph in rewrite(index, stages, guess):
        fitted = fit_loops(projector, graph, budget, options)
        peak = projector.working_set(fitted)
        made.append(_Candidate(fitted, peak, concatenated, index, stages, is_large))
    holding = [one for one in made if one.peak <= budget]
    return min(holding, key=lambda one: one.seconds) if holding else _lowest(made)


def _keep(projector: Projector, best: _Candidate, budget: int, options: Options) -> _Candidate:
    """Keep large tensors between stages where the budget has room and time is saved."""
    if best.peak > budget or best.stages is None:
        return best
    region, again = best.stages.region, best.stages.recomputed_large(best.is_large)

    def trial(tensors: frozenset[Tensor]) -> _Candidate | None:
        if sum(tensor.nbytes for tensor in tensors) > budget:
            return None
        stages = arrange(best.index, region, best.is_large, tensors)
        stages = dataclasses.replace(stages, exact=bool(compared_again(best.index, stages)))
        made = _evaluate(projector, best.index, stages, best.is_large, budget, options)
        return made if made.peak <= budget else None

    def seconds_to_make(tensor: Tensor) -> float:
        return node_seconds(projector.ops, best.index.producer[tensor])

    # Alone, what is dear to make first; then together, what saves most first.
    dear = sorted(again, key=seconds_to_make, reverse=True)
    alone = [(tensor, trial(frozenset({tensor}))) for tensor in dear[:KEEP_TRIALS]]
    saving = [(made.seconds, tensor) for tensor, made in alone if made is not None]
    kept: frozenset[Tensor] = frozenset()
    chosen = best
    for seconds, tensor in sorted(saving, key=lambda one: one[0]):
        if seconds >= best.seconds:
            break
        made = trial(kept | {tensor})
        if made is not None and made.seconds < chosen.seconds:
            chosen, kept = made, kept | {tensor}
    rest = [tensor for tensor in dear if tensor not in kept]
    return _keep_partly(projector, chosen, kept, rest[:PARTLY_TRIALS], budget, options)


def _keep_partly(
    projector: Projector,
    best: _Candidate,
    kept: frozenset[Tensor],
    tensors: Sequence[Tensor],
    budget: int,
    options: Options,
) -> _Candidate:
    """Keep as many indices of one more tensor as the budget has room for, if that saves time."""
    assert best.stages is not None
    index, region = best.index, best.stages.region
    again = arrange(index, region, best.is_large, kept)
    chosen = best
    for tensor in tensors:
        keeping = arrange(index, region, best.is_large, kept | {tensor})
        per_index = tensor.nbytes // region.extent
        room = budget - best.peak
        for count in parts_to_try(region.extent, per_index, budget, room):
            graph = keep_partly(index, again, keeping, count, min(64, region.extent))
            if graph is None:
                break
            graph = fit_loops(projector, graph, budget, options)
            made = dataclasses.replace(best, graph=graph, peak=projector.working_set(graph))
            if made.peak > budget:
                break
            least = PARTLY_GAIN * best.seconds if chosen is best else chosen.seconds
            if made.seconds < least:
                chosen = made
    return chosen


def _descend(
    projector: Projector,
    graph: Graph,
    budget: int,
    options: Options,
    depth: int,
    refusals: Refusals,
) -> Graph | None:
    """Split the sub-graphs of the While, If or Case at the peak, for what the budget leaves."""
    projection = projector.project(graph)
    node = projection.peak_node
    if node is None or isinstance(node, Loop) or not node.subgraphs:
        return None
    step = projection.steps[projection.peak_step]
    room = room_at(projector, graph, projection.peak_step, budget) - carried_bytes(node)

    def inside(sub: Graph) -> Graph:
        found = split(projector, sub, max(room, 0) + projector.overhead(sub), options, depth)
        refusals.update({(r.tensor, r.axis, r.node): r for r in found.refusals})
        return found.graph

    made = with_subgraphs(node, inside)
    if projector.temporary(made) >= step.temporary:
        return None
    return graph.replace(nodes=tuple(made if one is node else one for one in graph.nodes))
