"""The passes in order: Graph -> Plan."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

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
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.model.unbounded import unbounded
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.moves.loop_variables import part_loop_variables
from tf_exla.moves.messages import lighten
from tf_exla.moves.random_rows import random_rows
from tf_exla.moves.scattering import scatter_rows
from tf_exla.pipeline.collecting import rare_collections
from tf_exla.pipeline.forms import Form, Forms, least_bytes
from tf_exla.pipeline.patience import Patience
from tf_exla.pipeline.peak_parts import blocker, largest_residents, peak_parts
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite import Application, chosen, rewrite_graph
from tf_exla.rewrite.families import IN_CACHE, SYMMETRY
from tf_exla.rewrite.mirroring import mirror
from tf_exla.split.chunks import fit_loops
from tf_exla.split.search import Splitting, split
from tf_exla.split.trace import Alternative, Step, Trace


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
        least = least_bytes(projector, cleaned)
        cleaned = _checked("lighten", lighten(cleaned, ops, least), graph)
        by_rows = scatter_rows(random_rows(cleaned, ops, least), ops, least)
        by_rows = part_loop_variables(by_rows, ops)
        cleaned = _checked("rows", clean(by_rows, ops), graph)
    rewritten = rewrite_graph(cleaned, ops, rules, room(limit - held))
    _checked("rewrite", rewritten.graph, graph)
    held = resident_bytes(rewritten.graph) if resident is None else resident
    budget = room(limit - held)
    forms = Forms(projector, cleaned, rewritten, rules, budget, options)
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
        applications=(*mirrored, *within.form.applications),
        for_speed=in_cache is not None,
        steps=_steps(projector, cleaned, within, final, in_cache),
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


@dataclass(frozen=True)
class _Found:
    """A split program, the search it came from, and the form that was split.

    `others`: forms that were tried before.
    """

    graph: Graph
    splitting: Splitting
    form: Form
    others: tuple[_Found, ...] = ()


def _within(projector: Projector, forms: Iterable[Form], budget: int, options: Options) -> _Found:
    """Return the first form of the program whose split holds the budget; else the smallest.

    With the split graph comes the smallest plan of that form: the one that no limit can improve.
    """
    found: list[_Found] = []
    for form in forms:
        smallest = split(projector, form.graph, 0, options) if found or budget <= 0 else None
        # A search for a budget that the smallest plan does not hold is time lost.
        if smallest is None or projector.working_set(smallest.graph) <= budget:
            splitting = split(projector, form.graph, budget, options)
            if projector.working_set(splitting.graph) <= budget:
                return _Found(splitting.graph, splitting, form, tuple(found))
        smallest = smallest or split(projector, form.graph, 0, options)
        fitted = fit_loops(projector, smallest.graph, budget, options)
        if projector.working_set(fitted) <= budget:
            return _Found(fitted, smallest, form, tuple(found))
        found.append(_Found(smallest.graph, smallest, form))
    return min(found, key=lambda one: projector.working_set(one.graph))


def _steps(
    projector: Projector, cleaned: Graph, within: _Found, final: Graph, speed: Splitting | None
) -> tuple[Step, ...]:
    """Return the steps from the program to the plan; `speed`: of a split for the cache."""
    form, late = Trace(projector), Trace(projector)
    if within.form.graph is not cleaned:
        failed = [
            Alternative(
                one.form.name,
                projector.working_set(one.graph),
                graph_seconds(projector.ops, one.graph),
                "its smallest split does not hold the limit",
            )
            for one in within.others
        ]
        form.take(within.form.name, cleaned, within.form.graph, failed)
    if speed is None and final is not within.graph:
        late.take("late passes", within.graph, final)
    searched = within.splitting.steps if speed is None else speed.steps
    return (*form.steps(), *searched, *late.steps())
