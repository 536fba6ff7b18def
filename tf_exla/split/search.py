"""The search for a plan that holds the budget.

While the projected peak is above the budget: take the largest tensors alive at the peak, grow the
region of each of their axes, and compare the programs that result: the fastest among those that
hold the budget, else the one with the lowest peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.cost import graph_seconds, node_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, carried_bytes
from tf_exla.model.settings import SETTINGS
from tf_exla.split.candidates import (
    Candidate,
    Refusals,
    Tile,
    candidates,
    fixes_much,
    lowest,
    lowest_of_its_own,
    repeated,
)
from tf_exla.split.chunks import fit_loops, room_at
from tf_exla.split.progress import most_steps, peak_of
from tf_exla.split.region import Refusal
from tf_exla.split.saving import keep
from tf_exla.split.tiles import Split, tile_at, tile_for_speed
from tf_exla.split.trace import Step, Trace, compare


@dataclass(frozen=True)
class Splitting:
    """The result of a search: the graph, why what was not split was not, and the steps."""

    graph: Graph
    refusals: tuple[Refusal, ...]
    steps: tuple[Step, ...] = ()


def split(
    projector: Projector,
    graph: Graph,
    budget: int,
    options: Options,
    depth: int = 0,
    ahead: bool = True,
) -> Splitting:
    """Split large tensors until the working set holds `budget` bytes, as far as possible.

    `depth`: loops around the graph; bodies are split as well up to `max_depth` loops.
    `ahead`: a step that does not hold the budget yet, but is faster, is followed to its end.
    """
    refusals: Refusals = {}

    split_body = _body_split(projector, options, depth)
    tile = _tile(projector, budget, options, depth)
    smallest = graph
    best: Candidate | None = None
    trace = Trace(projector, enabled=not depth)
    for _ in range(most_steps(graph)):
        graph = fit_loops(projector, graph, budget, options)
        peak = projector.working_set(graph)
        if peak < projector.working_set(smallest):
            smallest = graph
        over = _over_threshold(graph, options)
        if peak <= budget and not over:
            graph = tile_for_speed(projector, graph, budget, options, depth, split_body)
            break
        if best is not None and not over:
            best = repeated(projector, graph, best, budget, options)
            # What holds the budget is chosen for its time, among all.
            if (
                best is not None
                and best.peak > budget
                and _is_progress(projector, best.graph, graph)
            ):
                trace.again(best.graph)
                graph = keep(projector, best, budget, options).graph
                continue
        found = list(candidates(projector, graph, budget, options, over, refusals, tile))
        best = _choose(projector, graph, found, budget, bool(over))
        if best is not None:
            traced = options.trace and not depth
            others = compare(projector, found, best, budget) if traced else ()
            trace.split(best, graph, others)
            graph = keep(projector, best, budget, options).graph
            if ahead and not depth and best.peak <= budget:
                further = _ahead(projector, graph, found, budget, options)
                if further is not graph:
                    trace.take("split once more, for speed", graph, further)
                graph = further
            continue
        inner = tile(graph)
        if inner is None:
            inner = _descend(projector, graph, budget, options, depth, refusals)
        if inner is None:
            break
        inner = fit_loops(projector, inner, budget, options)
        if not _is_progress(projector, inner, graph):  # in other chunks it needs as much again
            break
        trace.take("split inside of a loop or a choice", graph, inner)
        graph = inner
    holds = projector.working_set(graph) <= max(budget, projector.working_set(smallest))
    return Splitting(graph if holds else smallest, tuple(refusals.values()), trace.steps())


def split_for_speed(projector: Projector, graph: Graph, budget: int, options: Options) -> Splitting:
    """Split what takes the most time, as long as each step saves a tenth of the program's."""
    refusals: Refusals = {}
    tile = _tile(projector, budget, options, depth=0)
    whole = graph
    trace = Trace(projector)
    for _ in range(most_steps(graph)):
        slow = [node.outputs[0] for _, node in slow_nodes(projector, graph, options)]
        if not slow:
            break
        most = SETTINGS.margin_ahead * graph_seconds(projector.ops, graph)
        found = candidates(projector, graph, budget, options, slow, refusals, tile)
        faster = [
            one
            for one in found
            if one.peak <= budget and one.seconds < most and not _has_user_loops(one)
        ]
        if not faster:
            break
        best = min(faster, key=lambda one: one.seconds)
        others = compare(projector, faster, best, budget) if options.trace else ()
        trace.split(best, graph, others)
        graph = keep(projector, best, budget, options).graph
    if graph is not whole:
        split_body = _body_split(projector, options, depth=0)
        graph = tile_for_speed(projector, graph, budget, options, 0, split_body)
    return Splitting(graph, tuple(refusals.values()), trace.steps())


def _has_user_loops(one: Candidate) -> bool:
    """Return whether a While is split: for speed its iterations are too many, and not counted."""
    return any(is_while(node) for loop in one.own_loops() for node in loop.template.nodes)


def slow_nodes(projector: Projector, graph: Graph, options: Options) -> list[tuple[float, Node]]:
    """Return what makes tensors larger than the cache, what takes the longest first; seconds."""
    ops = projector.ops
    found = [
        (node_seconds(ops, node), node)
        for node in graph.nodes
        if not isinstance(node, Loop)
        and node.outputs
        and node.outputs[0].nbytes > options.cache_bytes
        and node.outputs[0] not in graph.outputs
        and not ops.aliases(node)
    ]
    return sorted(found, key=lambda one: -one[0])


def _body_split(projector: Projector, options: Options, depth: int) -> Split:
    def split_body(body: Graph, budget: int) -> Graph:
        return split(projector, body, budget, options, depth + 1).graph

    return split_body


def _tile(projector: Projector, budget: int, options: Options, depth: int) -> Tile:
    split_body = _body_split(projector, options, depth)

    def tile(graph: Graph, position: int | None = None, for_speed: bool = False) -> Graph | None:
        if position is None:
            position = projector.project(graph).peak_step
        return tile_at(projector, graph, position, budget, options, depth, split_body, for_speed)

    return tile


def _ahead(
    projector: Projector,
    graph: Graph,
    found: list[Candidate],
    budget: int,
    options: Options,
) -> Graph:
    """Return `graph`, which holds the budget, or a faster one that takes one split more."""
    seconds = graph_seconds(projector.ops, graph)
    more = [
        one for one in found if one.peak > budget and one.seconds < SETTINGS.margin_ahead * seconds
    ]
    if not more:
        return graph
    first = min(more, key=lambda one: one.seconds)
    made = split(projector, first.graph, budget, options, ahead=False).graph
    holds = projector.working_set(made) <= budget
    return (
        made
        if holds and graph_seconds(projector.ops, made) < SETTINGS.margin_ahead * seconds
        else graph
    )


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


def _is_progress(projector: Projector, made: Graph, graph: Graph) -> bool:
    if projector.working_set(made) < projector.working_set(graph):
        return True
    return peak_of(projector, made) < peak_of(projector, graph)


def _choose(
    projector: Projector, graph: Graph, found: list[Candidate], budget: int, forced: bool
) -> Candidate | None:
    """Return the fastest that holds the budget; else the lowest peak.

    Where the rest of the program needs as much as before, but fewer steps of it do, what the new
    loops need decides.

    What a loop concatenates is never split again. So a step that fixes a large tensor comes after
    those that do not, however low its peak is.
    """
    holding = [one for one in found if one.peak <= budget]
    if holding:
        return min(holding, key=lambda one: one.seconds)
    high = peak_of(projector, graph)
    useful = [one for one in found if forced or _is_progress(projector, one.graph, graph)]
    free = [one for one in useful if not fixes_much(projector, one, budget)] or useful
    if any(one.high.bytes < high.bytes for one in free):
        return lowest(free)
    return lowest_of_its_own(free, budget) if free else None


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
    room = room_at(projector, graph, projection.peak_step, budget) - carried_bytes(
        node, projector.sizes
    )

    def inside(sub: Graph) -> Graph:
        found = split(projector, sub, max(room, 0) + projector.overhead(sub), options, depth)
        refusals.update({(r.tensor, r.axis, r.node): r for r in found.refusals})
        return found.graph

    made = with_subgraphs(node, inside)
    if projector.temporary(made) >= step.temporary:
        return None
    return graph.replace(nodes=tuple(made if one is node else one for one in graph.nodes))
