"""Tiles: a loop in a loop, where one index of the axis exceeds the budget or the cache.

A chunk of few long rows is slow: each iteration reads all columns again for little work, and there
are many iterations. A chunk of a few rows of each of many matrices is slow as well. So where rows
are long relative to the cache, or an iteration reads large loop-invariant tensors, a chunk gets
more rows and is also split along another axis, if that is estimated to be faster.
"""

from __future__ import annotations

from collections.abc import Hashable

from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.structure import structure_of
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.cost import node_seconds
from tf_exla.model.options import Options
from tf_exla.model.settings import SETTINGS
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.chunks import fastest_chunk, has_loops
from tf_exla.split.loops.resize import resize_loop


def tile_at(
    context: SearchContext, graph: Graph, position: int, for_speed: bool = False
) -> Graph | None:
    """Split the bodies of the loop at `position` along another axis; None if that does not help.

    `for_speed`: the graph is within the budget already; split only if its bodies are large relative
    to the cache.
    """
    projector, options = context.projector, context.options
    step = projector.project(graph).step(position) if graph.nodes else None
    loop = step.node if step is not None else None
    if (
        step is None
        or not isinstance(loop, Loop)
        or has_loops(loop)
        or loop.bitwise_group
        or context.levels < 2
        or (for_speed and context.depth)
    ):
        return None
    if context.depth and not context.sinks and loop.extent > SETTINGS.batch:
        return None  # inside of a loop over a batch, only loops over another batch get tiles
    rows = 1 if loop.extent <= SETTINGS.batch else SETTINGS.sample_rows
    room = context.room_at(graph, position)
    if for_speed:
        room = min(room, SETTINGS.parallel * options.body_bytes)
        if step.temporary <= room or len(loop.body.nodes) > SETTINGS.tiled_nodes:
            return None
    made = tiled(context, loop, rows, room)
    if projector.temporary(made) >= step.temporary:
        return None
    return graph.with_instead(loop, made)


def tile_for_speed(context: SearchContext, graph: Graph) -> Graph:
    """Split the bodies of loops along another axis, where that is faster and within the budget.

    Several numbers of rows are tried. For loops of equal structure, the best one of the first loop
    is the only one tried for the others.
    """
    projector, options = context.projector, context.options
    known: dict[Hashable, tuple[int, ...]] = {}
    if context.depth:
        return graph
    for position, node in enumerate(graph.nodes):
        if not isinstance(node, Loop) or has_loops(node) or node.bitwise_group:
            continue
        if node.extent < SETTINGS.few_rows or len(node.body.nodes) > SETTINGS.tiled_nodes:
            continue
        if not (_rows_are_long(node, options) or _reads_much(node)):
            continue
        best, least = graph, SETTINGS.margin * node_seconds(projector.ops, node)
        key = structure_of(node), node.chunk, node.parallel
        found: tuple[int, ...] = ()
        room = min(context.room_at(graph, position), 2 * options.body_bytes)
        for rows in known.get(key, SETTINGS.tile_rows):
            one = tiled(context, node, rows, room)
            seconds = node_seconds(projector.ops, one)
            made = graph.with_instead(node, one)
            if seconds < least and context.holds(made):
                best, least, found = made, seconds, (rows,)
        known.setdefault(key, found)
        graph = best
    return graph


def _rows_are_long(loop: Loop, options: Options) -> bool:
    return fastest_chunk(loop, options) < SETTINGS.few_rows


def _reads_much(loop: Loop) -> bool:
    """Return whether operands that an iteration reads whole are large relative to its results."""
    own = max((t.nbytes for node in loop.body.nodes for t in node.outputs), default=0)
    sliced = frozenset(loop.sliced(loop.body))
    return sum(t.nbytes for t in loop.body.inputs if t not in sliced) > own // SETTINGS.much_read


def tiled(context: SearchContext, loop: Loop, rows: int, room: int, sinks: int = 0) -> Loop:
    """Return a loop with chunks of `rows` indices whose bodies are split for `room` bytes.

    `sinks`: as in `SearchContext`. The loops in the bodies may be nested one level less deeply than
    `context.levels`. The loop itself does not count as a level if its chunk is one matrix of a
    batch, or if its body may compute operands (`sinks`).
    """
    projector = context.projector
    wide = resize_loop(projector.ops, loop, min(loop.extent, rows), 1)
    is_matrix = wide.chunk == 1 < loop.extent <= SETTINGS.batch  # a top_k has larger chunks
    levels = context.levels if is_matrix or sinks else context.levels - 1

    def tile(body: Graph) -> Graph:
        sliced = sum(tensor.nbytes for tensor in wide.sliced(body))
        budget = max(room - sliced, 0) + projector.overhead(body)
        return context.split_body(body, budget, levels, sinks)

    made = with_subgraphs(wide, tile)
    assert isinstance(made, Loop)
    return made
