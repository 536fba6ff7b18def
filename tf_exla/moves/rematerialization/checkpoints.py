"""Checkpoints: the program before the peak is cut into pieces, which run again one by one.

Only tensors that pass from piece to piece are kept. Each piece runs again right before the first
late reader of its tensors: Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory
cost" (2016). The program is cut at points where few bytes are alive that would not be alive at the
peak anyway. The budget must have room for the bytes of one piece and for all that is kept. So
pieces should be neither too large nor too many, and several sizes are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from tf_exla.ir.graph import Graph, Tensor
from tf_exla.model.cost import graph_seconds
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.rematerialization.timeline import Rerun, Timeline


def keep_checkpoints(graph: Graph, projector: Projector, budget: int) -> Graph:
    """Return the fastest graph found within the budget, else the one that needs the least.

    Pieces are cut again, level by level, as long as the peak is above the budget and falls.
    """
    most = SETTINGS.copied_work * graph_seconds(projector.ops, graph)
    while True:
        made = _one_level(graph, projector, budget)
        before, now = projector.working_set(graph), projector.working_set(made)
        if now > budget and now > SETTINGS.margin * before:
            return made if now < before else graph
        if now <= budget or graph_seconds(projector.ops, made) > most:
            return made
        graph = made


def _one_level(graph: Graph, projector: Projector, budget: int) -> Graph:
    ops = projector.ops
    timeline = Timeline(graph, ops, projector.project(graph).peak_step)
    tried = dict.fromkeys(_pieces(timeline, size) for size in _sizes(timeline))
    made = [(projector.working_set(timeline.with_reruns(one)), one) for one in tried]
    made.sort(key=lambda one: one[0])
    # The cuts with the lowest peaks leave the most room to keep some pieces.
    holding = [one for bytes_, one in made[:2] if bytes_ <= budget]
    if holding:
        fewest = [_fewest(timeline, one, projector, budget) for one in holding]
        return min(fewest, key=lambda one: graph_seconds(ops, one))
    lowest = timeline.with_reruns(made[0][1]) if made else graph
    return min(graph, lowest, key=projector.working_set)


def _sizes(timeline: Timeline) -> Iterator[int]:
    """Yield the sizes of a piece, in bytes of idle tensors, that are tried.

    They are from a half of these bytes down to about those of a single tensor.
    """
    total = sum(holder.nbytes for holder in timeline.idle)
    for halves in range(2, 2 * len(timeline.idle).bit_length() + 1):
        yield int(total / 2 ** (halves / 2))


def _fewest(
    timeline: Timeline, pieces: tuple[Rerun, ...], projector: Projector, budget: int
) -> Graph:
    """Return the graph that reruns the fewest pieces within the budget.

    The first pieces are rerun, since their tensors wait for the longest time.
    """
    low, high = 1, len(pieces)
    while low < high:
        middle = (low + high) // 2
        if projector.working_set(timeline.with_reruns(pieces[:middle])) <= budget:
            high = middle
        else:
            low = middle + 1
    return timeline.with_reruns(pieces[:high])


def _pieces(timeline: Timeline, size: int) -> tuple[Rerun, ...]:
    """Return the pieces with about `size` bytes of idle tensors each.

    Tensors that a later piece reads are kept, so they are not computed again by another piece.
    """
    kept: set[Tensor] = set()
    pieces = []
    for since, end in reversed([*pairwise(_bounds(timeline, size))]):
        inside = (one for one in timeline.idle if since <= timeline.made_at[one] < end)
        dropped = [one for one in inside if one not in kept]
        if not dropped:
            continue
        piece = _since(timeline, since, dropped)
        read = {timeline.holder(one) for one in piece.outside if timeline.is_large(one)}
        if sum(one.nbytes for one in read) < sum(one.nbytes for one in dropped):
            pieces.append(piece)
            kept |= read
    return tuple(reversed(pieces))


def _since(timeline: Timeline, since: int, holders: list[Tensor]) -> Rerun:
    """Return the rerun of some tensors from tensors made before position `since`."""
    wanted = [tensor for holder in holders for tensor in timeline.idle[holder]]
    found = timeline.rerun(wanted, lambda tensor: timeline.made_at[tensor] < since)
    assert found is not None  # there is no limit of its time
    return found


def _bounds(timeline: Timeline, size: int) -> list[int]:
    """Return the positions at which the program before the peak is cut, with both ends."""
    through = _through(timeline)
    held = dict.fromkeys(range(timeline.peak), 0)
    for holder in timeline.idle:
        held[timeline.made_at[holder]] += holder.nbytes
    bounds, inside, best = [0], 0, None
    for at, nbytes in held.items():
        inside += nbytes
        if 2 * inside >= size and (best is None or through[at] < through[best[0]]):
            best = at, inside
        if inside >= size and best is not None:
            bounds.append(best[0] + 1)
            inside, best = inside - best[1], None
    return [*bounds, timeline.peak]


def _through(timeline: Timeline) -> list[int]:
    """Return for each node before the peak the bytes alive after it that are freed by the peak."""
    change = [0] * (timeline.peak + 1)
    for tensor, last in timeline.last.items():
        if last < timeline.peak and timeline.is_large(tensor):
            change[timeline.made_at[tensor]] += tensor.nbytes
            change[last] -= tensor.nbytes
    return list(accumulate(change))
