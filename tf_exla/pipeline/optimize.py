"""The passes in order: Graph -> Plan."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tf_exla.errors import (
    MemoryLimitError,
    UnboundedMemoryError,
    UnboundedMemoryWarning,
)
from tf_exla.ir.check import GraphError, check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import walk
from tf_exla.late.finishing import finish
from tf_exla.late.in_cache import split_in_cache
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.model.unbounded import unbounded
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.moves.loop_variables import part_loop_variables
from tf_exla.moves.lowering import lower
from tf_exla.moves.messages import lighten
from tf_exla.moves.moving import move
from tf_exla.moves.random_rows import random_rows
from tf_exla.moves.row_reads import read_rows
from tf_exla.moves.scattering import scatter_rows
from tf_exla.moves.sinking import sink
from tf_exla.moves.transposing import transpose_apart
from tf_exla.moves.unsharing import unshare
from tf_exla.pipeline.collecting import rare_collections
from tf_exla.pipeline.patience import Patience
from tf_exla.pipeline.peak_parts import blocker, largest_residents, peak_parts
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite import (
    Application,
    GraphRewrite,
    Rewrite,
    Rewritten,
    chosen,
    rewrite_graph,
)
from tf_exla.rewrite.families import IN_CACHE, SYMMETRY
from tf_exla.rewrite.mirroring import mirror
from tf_exla.split.chunks import fit_loops
from tf_exla.split.search import Splitting, split

LEAST = 1 << 16
FRACTION = 50
"""Tensors above this fraction of the working set, and above LEAST bytes, are worth more passes."""


@rare_collections()
def optimize_graph(
    graph: Graph,
    ops: OpSet,
    *,
    limit: int,
    resident: int | None = None,
    options: Options | None = None,
    function: str = "function",
) -> Plan:
    """Rewrite `graph` so that its projected peak is at most `limit` bytes.

    `resident`: bytes that exist before a call; by default the graph's inputs and constants.
    Raises `MemoryLimitError` where no plan holds the limit, `UnboundedMemoryError` where none can
    tell.
    """
    started = time.perf_counter()
    options = options or Options()
    ops = ContractingOps(ops)
    projector = Projector(ops, tick=Patience(function, sum(1 for _ in walk(graph))))
    check_graph(graph)
    cleaned = _checked("clean", clean(graph, ops), graph)
    _check_bounded(projector, cleaned, function, options)
    mirrored: tuple[Application, ...] = ()
    if options.uses(SYMMETRY):
        merged = mirror(cleaned, ops)
        mirrored = merged.applications
        cleaned = _checked("mirror", clean(merged.graph, ops), graph)
    rules = chosen(options.rewrites)
    taken, room = options.allocator.taken, options.allocator.room
    held = resident_bytes(cleaned) if resident is None else resident
    if projector.working_set(cleaned) > room(limit - held):
        least = _least(projector, cleaned)
        cleaned = _checked("lighten", lighten(cleaned, ops, least), graph)
        by_rows = scatter_rows(random_rows(cleaned, ops, least), ops, least)
        by_rows = part_loop_variables(by_rows, ops)
        cleaned = _checked("rows", clean(by_rows, ops), graph)
    rewritten = rewrite_graph(cleaned, ops, rules, room(limit - held))
    _checked("rewrite", rewritten.graph, graph)
    held = resident_bytes(rewritten.graph) if resident is None else resident
    budget = room(limit - held)
    forms = _forms(projector, cleaned, rewritten, rules, budget, options)
    within = _within(projector, forms, budget, options)
    split_graph = _checked("split", within.graph, graph)
    finished = finish(projector, split_graph, budget, options)
    final = _checked("finish", finished, graph)
    in_cache = None
    if options.cached and options.uses(IN_CACHE):
        in_cache = split_in_cache(projector, split_graph, final, budget, options)
    if in_cache is not None:
        final = _checked("in-cache", in_cache.graph, graph)
    working_set = taken(projector.working_set(final))
    if held + working_set > limit:
        smallest = within.splitting
        raise MemoryLimitError(
            function,
            limit=limit,
            resident=held,
            projected_peak=held + taken(projector.working_set(rewritten.graph)),
            smallest_limit=held + taken(projector.working_set(smallest.graph)),
            blocker=blocker(projector, smallest.graph, smallest.refusals),
            residents=largest_residents(smallest.graph),
            parts=peak_parts(projector, smallest.graph),
        )
    return Plan(
        graph=final,
        limit=limit,
        resident=held,
        working_set=working_set,
        working_set_before=taken(projector.working_set(graph)),
        original=graph,
        projection=projector.project(final),
        projection_before=projector.project(graph),
        refusals=(in_cache or within.splitting).refusals,
        seconds=time.perf_counter() - started,
        applications=(*mirrored, *within.applications),
        for_speed=in_cache is not None,
    )


def _check_bounded(projector: Projector, graph: Graph, function: str, options: Options) -> None:
    """Refuse what nothing bounds, or warn of it: of what comes from outside, always."""
    for found in unbounded(projector.sizes, graph):
        if found.node.name in options.awaited:
            continue
        error = UnboundedMemoryError(
            function,
            node=found.node.name,
            op=found.node.op,
            source=found.node.source,
            bytes=found.bytes,
        )
        if options.unbounded == "raise" and not found.outside:
            raise error
        warnings.warn(f"{error} It is not counted.", UnboundedMemoryWarning, stacklevel=2)


def _checked(name: str, graph: Graph, original: Graph) -> Graph:
    try:
        check_graph(graph, original)
    except GraphError as error:
        raise GraphError(f"pass {name!r}: {error}") from error
    return graph


_Form = tuple[Graph, tuple[Application, ...]]


@dataclass(frozen=True)
class _Found:
    """A split program, the search it came from, and the rewrites of the form that was split."""

    graph: Graph
    splitting: Splitting
    applications: tuple[Application, ...]


def _within(projector: Projector, forms: Iterator[_Form], budget: int, options: Options) -> _Found:
    """Return the first form of the program whose split holds the budget; else the smallest.

    With the split graph comes the smallest plan of that form: the one that no limit can improve.
    """
    found: list[_Found] = []
    for form, applied in forms:
        smallest = split(projector, form, 0, options) if found or budget <= 0 else None
        # A search for a budget that the smallest plan does not hold is time lost.
        if smallest is None or projector.working_set(smallest.graph) <= budget:
            splitting = split(projector, form, budget, options)
            if projector.working_set(splitting.graph) <= budget:
                return _Found(splitting.graph, splitting, applied)
        smallest = smallest or split(projector, form, 0, options)
        fitted = fit_loops(projector, smallest.graph, budget, options)
        if projector.working_set(fitted) <= budget:
            return _Found(fitted, smallest, applied)
        found.append(_Found(smallest.graph, smallest, applied))
    return min(found, key=lambda one: projector.working_set(one.graph))


def _least(projector: Projector, graph: Graph) -> int:
    """Return the bytes above which a tensor is worth more passes."""
    return max(projector.working_set(graph) // FRACTION, LEAST)


def _forms(
    projector: Projector,
    cleaned: Graph,
    rewritten: Rewritten,
    rules: Sequence[Rewrite | GraphRewrite],
    budget: int,
    options: Options,
) -> Iterator[_Form]:
    """Yield forms of the program, each once, with its rewrites; the cheapest to run first.

    Some rewrites need room. A rewrite can tie two axes together (G + transposed G); sinking and
    lowering cost more work, and make new chances: what is sunk meets the readers in the body, a
    lowered softmax has a divisor. Last, what is shared along two axes is made twice, first what is
    cheap, then all that is read transposed.
    """
    tight = [rule for rule in rules if not (isinstance(rule, Rewrite) and rule.needs_memory)]
    needs_memory = {rule.family for rule in rules if rule not in tight}
    slim = rewritten
    least = _least(projector, cleaned)
    seen: set[Graph] = set()

    def without_roomy() -> _Form:
        nonlocal slim
        if any(one.family in needs_memory for one in rewritten.applications):
            slim = rewrite_graph(cleaned, projector.ops, tight, budget)
        return slim.graph, slim.applications

    def again(graph: Graph) -> _Form:
        if graph is slim.graph:
            return graph, slim.applications
        made = rewrite_graph(graph, projector.ops, tight)
        return made.graph, (*slim.applications, *made.applications)

    def sunk(graph: Graph, room: int) -> Graph:
        room -= projector.overhead(graph)
        rows = read_rows(graph, projector, least, room, options.largest_chunk)
        inside = sink(rows, projector.ops, least)
        return read_rows(inside, projector, least, room, options.largest_chunk)

    @cache
    def lowered(room: int) -> _Form:
        return again(lower(sunk(slim.graph, room), projector.ops, least))

    def moved(form: _Form) -> _Form:
        made = move(form[0], projector.ops, least)
        return form if made is form[0] else again(made)

    @cache
    def apart(form: _Form) -> _Form:
        return unshare(form[0], projector.ops, least), form[1]

    def transposed(form: _Form) -> _Form:
        return transpose_apart(form[0], projector.ops, least), form[1]

    def inside(room: int) -> Iterator[_Form]:
        yield again(sunk(slim.graph, room))
        yield lowered(room)
        yield lower(sunk(cleaned, room), projector.ops, least), ()
        yield apart(lowered(room))
        yield moved(lowered(room))
        yield apart(transposed(lowered(room)))

    def forms() -> Iterator[_Form]:
        yield rewritten.graph, rewritten.applications
        yield without_roomy()
        yield cleaned, ()
        yield from inside(budget)
        if read_rows(cleaned, projector, least, 0, 0) is not cleaned:
            yield from inside(0)  # one row at a time takes the least

    for form in forms():
        if form[0] not in seen:
            seen.add(form[0])
            yield form
