"""Candidates whose loops are also split along another axis: see `tiles.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tf_exla.ir.graph import Loop
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.split.candidate import Candidate, fixes_much, measured
from tf_exla.split.context import SearchContext
from tf_exla.split.progress import own_step, rest_bytes
from tf_exla.split.tiles import tile_at


def with_tiles(context: SearchContext, found: list[Candidate]) -> Iterator[Candidate]:
    """Yield candidates, with tiles where these are useful.

    If the new loops of a candidate exceed the budget, it is replaced by the candidate with tiles.
    Otherwise tiles can only be faster, and both are yielded.

    Tiles change only the new loops. So they are not tried in three cases. The rest of the program
    exceeds the budget, and tiles would gain little now: later steps split what is at the peak then.
    The rest of the program needs more than another candidate does in total. Or the sums that the
    loop completes alone need more than the new loops of another candidate.
    """
    projector, budget = context.projector, context.budget
    fixed = {one: fixes_much(context, one) for one in found}
    lowest_high = min((one.high.bytes for one in found if not fixed[one]), default=0)
    useful = (one.own for one in found if not fixed[one] and _lowers(context, one))
    least_own = max(budget, min(useful, default=sys.maxsize))
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
        if not for_speed and _least_with_tiles(projector, one) > least_own:
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


def _lowers(context: SearchContext, one: Candidate) -> bool:
    return one.peak < context.working_set(one.index.graph)


def _least_with_tiles(projector: Projector, one: Candidate) -> int:
    """Return a lower bound of `own` with tiles: a body still allocates its sums as a whole."""
    projection = projector.project(one.graph)
    position = own_step(projection, one.index.graph)
    if position is None:
        return 0
    step = projection.step(position)
    assert isinstance(step.node, Loop)
    made = zip(step.node.body.outputs, step.node.results, strict=True)
    sums = (t.nbytes for t, how in made if how.slot is None and not how.accumulates_in_body)
    return projection.bytes[position] - step.temporary + sum(sums) + projector.overhead(one.graph)


def _tiled(context: SearchContext, one: Candidate, for_speed: bool) -> Candidate | None:
    projection = context.projector.project(one.graph)
    position = own_step(projection, one.index.graph)
    graph = tile_at(
        context, one.graph, projection.peak_step if position is None else position, for_speed
    )
    if graph is None:
        return None
    return measured(context.projector, graph, one.index, one.concatenated, one.stages, one.is_large)
