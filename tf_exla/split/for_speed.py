"""Splits only for speed, of programs within the budget: of nodes that move more than the cache."""

from __future__ import annotations

from dataclasses import replace

from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.cost import node_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.split.candidate import Candidate
from tf_exla.split.candidates import Refusals, candidates
from tf_exla.split.context import SearchContext
from tf_exla.split.progress import most_steps
from tf_exla.split.saving import keep
from tf_exla.split.search import Splitting, search_context
from tf_exla.split.tiles import tile_for_speed
from tf_exla.split.trace import Trace, compare


def split_for_speed(projector: Projector, graph: Graph, budget: int, options: Options) -> Splitting:
    """Split the slowest nodes, as long as each step saves a twentieth of the program's time.

    Nodes in the body of a While or in a branch are split as well, if a step saves a twentieth of
    the time of that body or branch.
    """
    refusals: Refusals = {}
    trace = Trace(projector)
    made = _faster(search_context(projector, budget, options), graph, refusals, trace)
    return Splitting(made, tuple(refusals.values()), trace.steps())


def _faster(context: SearchContext, graph: Graph, refusals: Refusals, trace: Trace) -> Graph:
    options, whole = context.options, graph
    for _ in range(most_steps(graph)):
        slow = [node.outputs[0] for _, node in _slow_nodes(context.projector, graph, options)]
        if not slow:
            break
        most = SETTINGS.margin * context.seconds(graph)
        faster: list[Candidate] = []
        with context.projector.effort.for_speed():
            for one in candidates(context, graph, slow, refusals):
                if one.peak <= context.budget and one.seconds < most and not _has_user_loops(one):
                    faster.append(one)
        if not faster:
            break
        best = min(faster, key=lambda one: one.seconds)
        trace.split(best, graph, compare(context, faster, best) if options.trace else ())
        graph = keep(context, best).graph
    if graph is not whole:
        graph = tile_for_speed(context, graph)
    return _inside(context, graph, refusals, trace)


def _inside(context: SearchContext, graph: Graph, refusals: Refusals, trace: Trace) -> Graph:
    """Split the slowest nodes of the bodies and branches of a graph."""
    projector = context.projector
    for position, node in enumerate(graph.nodes):
        if not _slow_inside(projector, node, context.options):
            continue
        room = context.room_inside(graph, position)

        def faster(sub: Graph, room: int = room) -> Graph:
            inner = replace(context, budget=room + projector.overhead(sub))
            return _faster(inner, sub, refusals, Trace(projector, enabled=False))

        new = with_subgraphs(node, faster)
        if new is not node:
            made = graph.with_nodes([new if one is node else one for one in graph.nodes])
            trace.take("split inside of a loop or a choice, for speed", graph, made)
            graph = made
    return graph


def slow_seconds(projector: Projector, graph: Graph, options: Options) -> float:
    """Return the seconds of the nodes that move more bytes than the cache, in sub-graphs too."""
    slow = _slow_nodes(projector, graph, options)
    own = sum(seconds for seconds, node in slow if not node.subgraphs)
    return own + sum(_slow_inside(projector, node, options) for node in graph.nodes)


def _slow_inside(projector: Projector, node: Node, options: Options) -> float:
    if isinstance(node, Loop) or not node.subgraphs:
        return 0.0
    times = (projector.sizes.iterations(node) or 1) if is_while(node) else 1
    return times * sum(slow_seconds(projector, sub, options) for _, sub in node.subgraphs)


def _slow_nodes(projector: Projector, graph: Graph, options: Options) -> list[tuple[float, Node]]:
    """Return the nodes that move more bytes than the cache holds, with their seconds.

    The slowest is first. Nodes with small results are left out. With half of the cache as the
    threshold, half of 12 programs became slower.
    """
    ops = projector.ops
    found = [
        (node_seconds(ops, node), node)
        for node in graph.nodes
        if not isinstance(node, Loop)
        and node.outputs
        and _moved_past(options.cache_bytes, node)
        and node.outputs[0] not in graph.outputs
        and not ops.aliases(node)
    ]
    return sorted(found, key=lambda one: -one[0])


def _moved_past(cache: int, node: Node) -> bool:
    made = node.outputs[0].nbytes
    moved = sum(tensor.nbytes for tensor in (*node.inputs, *node.outputs))
    return cache < made or cache < moved <= SETTINGS.small_operand * made


def _has_user_loops(one: Candidate) -> bool:
    """Return whether a While is split.

    The number of its iterations, and so its time, is known only if it counts them itself.
    """
    return any(is_while(node) for loop in one.own_loops() for node in loop.template.nodes)
