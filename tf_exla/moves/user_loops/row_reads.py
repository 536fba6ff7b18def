"""Rows that a While reads one at a time are computed when it reads them.

`D = distances(x, y); for row in D: ...` holds all of D while the loop runs, though an iteration
sees one row. A large tensor is cut along an axis if no iteration changes it and the body reads it
only at an index along this axis. The body computes a *block* of rows from slices of D's sources,
and keeps it as a loop variable until a row of another block is read. So a loop over the rows in
order, forward or back, computes each row once; any other order is correct as well. Single rows that
are read outside of loops are computed by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tf_exla.ir.builder import Builder
from tf_exla.ir.control_flow import Variable, body_of, cond_of, passed_on, with_variables
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, with_subgraphs, without_dead
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.user_loops.row_blocks import (
    Blocks,
    kept_block,
    made_block,
    place_of,
    row_of,
    start_of,
)
from tf_exla.moves.user_loops.row_index import Read, Rows, read_of, rows_of
from tf_exla.split.loops.resize import cut
from tf_exla.split.loops.stages import Stage, build_loop
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow
from tf_exla.split.regions.origins import tests_order


class _Found(NamedTuple):
    """A tensor that is read row by row.

    `loop`: a loop over its rows that computes it. `rows`: which of these rows the reads index.
    """

    loop: Loop
    rows: Rows
    reads: list[Read]


def read_rows(graph: Graph, projector: Projector, least: int, room: int, largest: int) -> Graph:
    """Let Whiles compute rows of tensors of more than `least` bytes when they read them.

    The tensors of a block have up to `largest` bytes each, and up to half of `room` together with
    their producers. A block has at least one row. A program that compares real numbers is not
    changed, since a recomputed row may differ in its last bits (`origins.py`).
    """
    if tests_order(graph):
        return graph
    index = DefUse(graph, projector.ops)
    renamed: dict[Tensor, Tensor] = {}
    nodes: list[Node] = []
    for old in graph.nodes:
        node = old.substitute(renamed)
        for k in sorted(passed_on(old), reverse=True):
            found = _found_inside(index, node, k, least)  # `node` is the While as changed so far
            if found is None:
                continue
            renamed[old.outputs[k]] = old.inputs[k]
            sources = [renamed.get(tensor, tensor) for tensor in found.loop.inputs]
            size = _block(found.loop, projector, room // 2, largest)
            *before, node = _with_rows(node, k, sources, found, size, projector.ops)
            nodes += before
        alone = _found_alone(index, old, least)
        if alone is not None:
            sources = [renamed.get(tensor, tensor) for tensor in alone.loop.inputs]
            nodes += _single(node, sources, alone, projector.ops)
            continue
        inner = with_subgraphs(node, lambda sub: read_rows(sub, projector, least, room, largest))
        nodes.append(inner)
    changed = graph.with_nodes(nodes, renamed)
    return graph if changed is graph else without_dead(changed)


def _found_inside(index: DefUse, node: Node, k: int, least: int) -> _Found | None:
    """Return the tensor in variable `k` of a While if the body only reads it row by row."""
    tensor = node.inputs[k]
    maker = index.producer.get(tensor)
    if maker is not None and maker.op == "list_from_tensor":
        tensor = maker.inputs[0]
    if tensor not in index.producer or not tensor.is_static or tensor.nbytes <= least:
        return None
    cond, body = cond_of(node), body_of(node)
    if any(cond.inputs[k] in one.inputs for one in cond.nodes) or cond.inputs[k] in cond.outputs:
        return None
    reads = list(_reads(body, k))
    known = [read for read in reads if read is not None]
    if not known or len(known) < len(reads) or len({read.axis for read in known}) != 1:
        return None
    return _found(index, tensor, known)


def _found_alone(index: DefUse, node: Node, least: int) -> _Found | None:
    """Return the tensor of which a node outside of loops reads a single row; None if none."""
    if not node.inputs or node.op not in ("take", "strided_slice"):
        return None
    tensor = node.inputs[0]
    if tensor not in index.producer or not tensor.is_static or tensor.nbytes <= least:
        return None
    read = read_of(node, tensor, index.producer)
    return _found(index, tensor, [read]) if read is not None else None


def _found(index: DefUse, tensor: Tensor, reads: list[Read]) -> _Found | None:
    rows = rows_of(tensor, reads[0].axis, index.producer)
    if rows.whole not in index.producer:
        return None
    loop = _loop_over(index, rows.whole, reads[0].axis)
    return None if loop is None else _Found(loop, rows, reads)


def _loop_over(index: DefUse, whole: Tensor, axis: int) -> Loop | None:
    """Return the loop over an axis of a tensor that computes it; None if it saves no memory."""
    small = max(whole.nbytes // SETTINGS.small_beside, CHAIN_BYTES)
    if whole.dims[axis] < 2:
        return None
    region = grow(index, whole, axis, lambda tensor: tensor is whole or tensor.nbytes > small)
    if region is None or whole not in region.slots:
        return None
    nodes: set[Node] = set()
    work = [index.producer[whole]]
    while work:
        node = work.pop()
        if node not in nodes:
            nodes.add(node)
            inside = [t for k, t in enumerate(node.inputs) if region.inside(node, k)]
            work += [index.producer[tensor] for tensor in inside]
    ordered = tuple(sorted(nodes, key=index.position.__getitem__))
    loop = build_loop(index, region, Stage(0, ordered, (whole,), ()))
    kept = {tensor for tensor in loop.inputs if tensor in index.producer}
    saves = sum(tensor.nbytes for tensor in kept) < whole.nbytes
    return loop if saves and loop.results[0].slot == region.slots[whole] else None


def _reads(body: Graph, k: int) -> Iterator[Read | None]:
    """Yield the reads of rows of a variable; None for each other use."""
    made_by = producers(body)
    variable = body.inputs[k]
    for node in body.nodes:
        if variable in node.inputs:
            yield read_of(node, variable, made_by)
    for position, tensor in enumerate(body.outputs):
        if tensor is variable and position != k:
            yield None


def _block(loop: Loop, projector: Projector, room: int, largest: int) -> int:
    """Return how many indices of the loop's axis a block has."""
    each = max(tensor.nbytes // loop.extent for tensor in loop.split_axes)
    size = max(1, min(largest // max(each, 1), loop.extent))
    while size > 1:
        body = cut(projector.ops, loop.template, loop.split_axes, size)
        # The block of the previous iteration is alive as well.
        if projector.project(body).working_set + 2 * body.outputs[0].nbytes <= room:
            break
        size //= 2
    return size


def _single(node: Node, sources: list[Tensor], found: _Found, ops: OpSet) -> list[Node]:
    """Return nodes that compute the row that a node reads."""
    (read,) = found.reads
    w = Builder(node, ops)
    index = node.inputs[1] if node.op == "take" else read.at
    place = place_of(w, index, read, found.rows)
    blocks = Blocks(found.loop, sources, 1)
    start = start_of(w, place, blocks)
    row_of(w, place, start, made_block(w, start, blocks), blocks.slot)
    return w.ended(node.output)


def _with_rows(
    node: Node, k: int, sources: list[Tensor], found: _Found, size: int, ops: OpSet
) -> list[Node]:
    """Return the nodes of a While that computes the rows of variable `k` itself."""
    w = Builder(node, ops)
    body, loop = body_of(node), found.loop
    inner = [tensor.fresh_copy() for tensor in sources]
    added = [Variable(first, passed, passed) for first, passed in zip(sources, inner, strict=True)]
    blocks = Blocks(loop, inner, size)
    nodes: list[Node] = []
    made: dict[Tensor | int, tuple[Tensor, Tensor, Tensor]] = {}
    renamed: dict[Tensor, Tensor] = {}
    reads = {read.node: read for read in found.reads}
    for one in body.nodes:
        read = reads.get(one)
        if read is None:
            nodes.append(one.substitute(renamed))
            continue
        index = read.at
        if isinstance(index, Tensor):
            index = renamed.get(index, index)
        at = Builder(one, ops)
        if index not in made:
            place = place_of(at, index, read, found.rows)
            start = start_of(at, place, blocks)
            if size == 1:
                block = made_block(at, start, blocks)
            else:
                block, variables = _kept(w, at, start, blocks)
                added += variables
            made[index] = place, start, block
        place, start, block = made[index]
        renamed[one.output] = row_of(at, place, start, block, blocks.slot)
        nodes += at.nodes
    return [*w.nodes, with_variables(node, added, (k,), body.with_nodes(nodes, renamed))]


def _kept(w: Builder, at: Builder, start: Tensor, blocks: Blocks) -> tuple[Tensor, list[Variable]]:
    """Return a block, and the variables that pass its first index and the block itself on."""
    loop = blocks.loop
    like = cut(w.ops, loop.template, loop.split_axes, blocks.size).outputs[0]
    firsts = w.const(-1, start.dtype), w.op("full", w.const(like.dims), w.zeros(like))
    held, before = (tensor.fresh_copy() for tensor in firsts)
    block = kept_block(at, start, held, before, blocks)
    return block, [Variable(firsts[0], held, start), Variable(firsts[1], before, block)]
