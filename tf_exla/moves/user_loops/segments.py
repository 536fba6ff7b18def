"""Segments: the gradient of a long loop computes it again, some iterations at a time.

Each iteration of a While keeps results in lists, which the iterations of its gradient pop. With
segments, the loop keeps only what it carries at the start of each of K segments. The gradient takes
the segments in reverse order. For each, it first runs the S iterations again, which fill lists for
this segment alone, and then their gradient. Let each of T iterations keep a bytes in lists, and
carry c bytes. Then this needs K c + S a instead of T a bytes, with a minimum at S = √(T c / a), and
one more run of the loop (Griewank, Achieving logarithmic growth of temporal and spatial complexity
in reverse automatic differentiation, 1992; Chen et al., Training deep nets with sublinear memory
cost, 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tf_exla.ir.clean import drop_dead
from tf_exla.ir.control_flow import body_of, cond_of, is_while, passed_on
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.static_integers import static_integer
from tf_exla.ir.tensor import is_number
from tf_exla.ir.traverse import producers, reads, walk
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.user_loops.iterations import static_value
from tf_exla.moves.user_loops.kept_lists import KeptList, kept_lists
from tf_exla.moves.user_loops.row_buffers import with_arrays, with_lists
from tf_exla.moves.user_loops.segmented import Kept, Segmented
from tf_exla.split.regions.origins import clash, is_test, tests_order
from tf_exla.vocabulary.trip_counts import step_of

_CHECKED = 2000
"""The most iterations for which a condition is evaluated: a tenth of a second at 50 µs each."""
_LEAST_NODES = 12
"""The least nodes that a segment runs: the three loops that start for each segment take the time of
about as many."""


def in_segments(graph: Graph, ops: OpSet) -> Graph:
    """Return the graph whose loops are computed again in segments; the same if there are none."""
    made, write = with_lists(graph, ops)
    before, done = made.nodes, set[Node]()
    starts, again, backward = set[Tensor](), set[Node](), set[Node]()
    while (pair := _pair(made, ops, done)) is not None:
        made = pair.replaced(made)
        done |= pair.made
        starts |= pair.begins
        again |= {part.loop for part in pair.parts}
        backward.add(pair.backward)
    # A kept start may equal a number that the segment before computes again. So `clash` may ignore
    # starts only if no comparison is outside of the steps that run again, each in one segment.
    if any(map(is_test, {*before} - (again - backward))):
        starts = set()
    if not done or (tests_order(made) and clash(made, ops, starts) is not None):
        return graph
    made = drop_dead(made)
    if write is not None:
        made = with_arrays(made, write, ops)
        if any(is_list(tensor) for node in walk(made) for tensor in node.outputs):
            return graph  # a loop of which only a part runs again fills lists for others, too
    return made


def _pair(graph: Graph, ops: OpSet, done: set[Node]) -> Segmented | None:
    """Return the gradient that saves most in segments; None if none saves enough.

    It may read the lists of several loops with as many iterations.
    """
    made_by, best, most = producers(graph), None, SETTINGS.worth_bytes
    for backward in filter(is_while, graph.nodes):
        makers = dict.fromkeys(made_by[t] for t in backward.inputs if t in made_by)
        loops = {
            one: lists
            for one in makers
            if is_while(one) and (lists := list(kept_lists(graph, one, backward)))
        }
        trips = {ops.iterations(one, {}) for one in loops}
        if backward in done or any(one.stateful for one in (backward, *loops)) or len(trips) != 1:
            continue
        (count,) = trips
        if count is None:
            continue
        parts = [part for one, lists in loops.items() if (part := _again(one, lists, count))]
        length, saved = _length(parts, count)
        if saved > most:
            best, most = Segmented(backward, parts, (length, -(-count // length)), ops), saved
    return best


def _again(forward: Node, lists: Sequence[KeptList], trips: int) -> Kept | None:
    """Return the part of a loop that fills the lists; None if it cannot run again.

    It cannot if it has side effects, or if it reads a list that the loop changes.
    """
    body, cond, same = body_of(forward), cond_of(forward), passed_on(forward)
    operands = [tensor for one in lists for tensor in one.start.inputs]
    if any(not one.item.is_static for one in lists) or any(t.value is None for t in operands):
        return None
    pushes = {one.push for one in lists}
    filled = {one.at for one in lists}
    tested = reads(cond)
    known = {k for k, tensor in enumerate(cond.inputs) if tensor in tested}
    while True:
        after = {body.outputs[k] for k in known if k not in same}
        wanted, nodes = {*after, *(one.item for one in lists)}, []
        for node in reversed(body.nodes):
            if node in pushes or wanted.isdisjoint(node.outputs):
                continue
            if node.stateful:
                return None
            nodes.append(node)
            wanted.update(node.inputs)
        found = {k for k, tensor in enumerate(body.inputs) if tensor in wanted} | known
        if found == known:
            break
        known = found
    counters = {k: one for k, one in _counters(forward, trips).items() if k in known}
    carried = tuple(sorted(known - same - counters.keys()))
    if known & filled or any(not _is_kept(body.inputs[k]) for k in carried):
        return None
    same = frozenset(known & same)
    return Kept(
        forward, tuple(lists), tuple(reversed(nodes)), carried, tuple(sorted(same)), counters
    )


def _counters(forward: Node, trips: int) -> dict[int, tuple[int, int]]:
    """Return the counters of a loop, by position: the first value and the step of each.

    Empty unless the counters alone determine that the loop runs exactly `trips` iterations.
    """
    body, cond = body_of(forward), cond_of(forward)
    made, found = producers(body), dict[int, tuple[int, int]]()
    for k, tensor in enumerate(forward.inputs):
        first, step = static_integer(tensor), step_of(body, made, k)
        largest = {"int32": 2**31, "int64": 2**63}.get(tensor.dtype, 0)
        if first is not None and step and abs(first) + trips * abs(step) < largest:
            found[k] = first, step  # it does not wrap around

    def goes_on(count: int) -> bool | None:
        now = [
            replace(inner, value=np.asarray(found[k][0] + count * found[k][1]))
            if k in found
            else forward.inputs[k]
            for k, inner in enumerate(cond.inputs)
        ]
        return static_value(cond, now)

    if trips > _CHECKED or not all(map(goes_on, range(trips))):
        return {}
    return found if goes_on(trips) is False else {}


def _is_kept(tensor: Tensor) -> bool:
    """Return whether a list may keep a tensor."""
    return tensor.is_static and is_number(tensor.dtype)


def _length(parts: Sequence[Kept], trips: int) -> tuple[int, int]:
    """Return the iterations of a segment and the bytes saved; (0, 0) if too few bytes are saved.

    At least half of the bytes of the lists must be.
    """
    kept = carried = nodes = 0
    for part in parts:
        nodes += len(part.nodes)
        inputs = body_of(part.loop).inputs
        same = {inputs[k] for k in passed_on(part.loop)}
        kept += sum(one.item.nbytes for one in part.lists if one.item not in same)
        carried += sum(inputs[k].nbytes for k in part.carried)
    if not kept:
        return 0, 0
    least = -(-_LEAST_NODES // max(nodes, 1))
    length = max(least, round(math.sqrt(trips * carried / kept)))
    saved = trips * kept - (-(-trips // length) * carried + length * kept)
    return (length, saved) if 2 * saved >= trips * kept else (0, 0)
