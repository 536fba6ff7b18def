"""The passes in order: Graph -> Plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_exla.caller import warn
from tf_exla.errors import (
    MemoryLimitError,
    UnboundedMemoryError,
    UnboundedMemoryWarning,
)
from tf_exla.ir.check import GraphError, check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Shape
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.open_sizes import is_of_unknown_size
from tf_exla.ir.traverse import ancestors, count_nodes, producers
from tf_exla.model.cost import graph_seconds
from tf_exla.model.effort import Effort
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.model.settings import SETTINGS
from tf_exla.model.unbounded import keeps_bounded_lists, unbounded
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.moves.messages import lighten
from tf_exla.moves.random_rows import random_rows
from tf_exla.moves.scattering import scatter_rows
from tf_exla.moves.user_loops.item_parts import with_item_parts
from tf_exla.moves.user_loops.last_items import with_last_items
from tf_exla.moves.user_loops.loop_variables import part_loop_variables
from tf_exla.moves.user_loops.row_lists import without_row_lists
from tf_exla.pipeline.choice import Found, best_of, first_within
from tf_exla.pipeline.collecting import rare_collections
from tf_exla.pipeline.forms import Forms, least_bytes
from tf_exla.pipeline.patience import Patience
from tf_exla.pipeline.peak_parts import blocker, largest_residents, peak_parts
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite import Application, chosen, rewrite_graph
from tf_exla.rewrite.families import SYMMETRY
from tf_exla.rewrite.mirroring import mirror
from tf_exla.split.loops.chunks import fit_loops
from tf_exla.split.search import Splitting
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
    """Return a plan: `graph`, rewritten so that its projected peak is at most `limit` bytes.

    `resident`: bytes that exist before a call; by default the graph's inputs and constants.
    `function`: the name of the program in messages. Raises `MemoryLimitError` if no plan holds the
    limit, `UnboundedMemoryError` if nothing bounds the memory of a node.
    """
    found = _optimized(graph, ContractingOps(ops), limit, resident, options or Options(), function)
    if isinstance(found, MemoryLimitError):
        raise found  # not inside: the traceback would keep the variables of `_optimized` alive
    return found


def _optimized(
    graph: Graph,
    ops: OpSet,
    limit: int,
    resident: int | None,
    options: Options,
    function: str,
) -> Plan | MemoryLimitError:
    """Return the plan, or the error if no plan is within the limit."""
    started = time.perf_counter()
    nodes = count_nodes(graph)
    most = SETTINGS.walks_for_speed + SETTINGS.walks_of_node * nodes
    projector = Projector(ops, Effort(most, Patience(function, nodes)))
    check_graph(graph)
    run = _Run(projector, graph, options, limit, resident)
    cleaned = run.checked("clean", clean(graph, ops))
    uncounted = _uncounted(projector, cleaned, function, options)
    for message in uncounted:
        warn(message, UnboundedMemoryWarning)
    # The length of a loop may be a constant only after cleaning. Then the bytes of its lists are
    # bounded only in the cleaned program.
    before = graph if keeps_bounded_lists(projector.sizes, graph) else cleaned
    cleaned, mirrored = _mirrored(run, cleaned)
    cleaned = _by_rows(run, cleaned)
    rules = chosen(options.rewrites)
    rewritten = rewrite_graph(cleaned, ops, rules, run.budget(cleaned))
    run.checked("rewrite", rewritten.graph)
    budget = run.budget(rewritten.graph)
    forms = Forms(projector, graph, cleaned, rewritten, rules, budget, options)
    best = best_of(forms, run.checked)
    within, final = best.found, best.graph
    held, taken = run.held(rewritten.graph), options.allocator.taken
    if held + taken(projector.working_set(final)) > limit:
        return _too_large(run, function, _smallest(forms, within))
    return Plan(
        graph=final,
        limit=limit,
        resident=held,
        working_set=taken(projector.working_set(final)),
        working_set_before=taken(projector.working_set(before)),
        original=graph,
        projection=projector.project(final),
        projection_before=projector.project(before),
        refusals=(best.for_cache or within.splitting).refusals,
        seconds=time.perf_counter() - started,
        applications=(*mirrored, *within.form.applications),
        for_speed=best.for_cache is not None,
        steps=_steps(projector, cleaned, within, final, best.for_cache),
        options=options,
        uncounted=uncounted,
    )


@dataclass(frozen=True)
class _Run:
    """One optimization: the original program, its options and its limit.

    `resident`: bytes that exist before a call; None: the program's inputs and constants.
    """

    projector: Projector
    original: Graph
    options: Options
    limit: int
    resident: int | None

    def held(self, graph: Graph) -> int:
        """Return the bytes that exist before a call."""
        return resident_bytes(graph) if self.resident is None else self.resident

    def budget(self, graph: Graph) -> int:
        """Return the bytes that a call of `graph` may request."""
        return self.options.allocator.room(self.limit - self.held(graph))

    def checked(self, name: str, graph: Graph) -> Graph:
        """Return the result of pass `name`. Raises `GraphError` if it is no valid program."""
        try:
            check_graph(graph, self.original)
        except GraphError as error:
            raise GraphError(f"pass {name!r}: {error}") from error
        return graph


def _mirrored(run: _Run, graph: Graph) -> tuple[Graph, tuple[Application, ...]]:
    """Merge results that are equal because a tensor is symmetric; return the rewrites, too."""
    if not run.options.uses(SYMMETRY):
        return graph, ()
    ops = run.projector.ops
    merged = mirror(graph, ops)
    return run.checked("mirror", clean(merged.graph, ops)), merged.applications


def _by_rows(run: _Run, graph: Graph) -> Graph:
    """Make messages, scatters, random tensors and loops splittable, if the program is too large."""
    projector, ops = run.projector, run.projector.ops
    if projector.working_set(graph) <= run.budget(graph):
        return graph
    least = least_bytes(projector, graph)
    graph = run.checked("lighten", lighten(graph, ops, least))
    drawn = random_rows(graph, ops, together=least, each=SETTINGS.worth_bytes)
    made = scatter_rows(drawn, ops, least)
    parted = with_item_parts(part_loop_variables(with_last_items(made, ops), ops), ops)
    return run.checked("rows", clean(without_row_lists(parted, ops, least), ops))


@dataclass(frozen=True)
class _Smallest:
    """The search with the smallest plan, and the forms for the budget of that plan.

    `graphs`: the rewritten graphs that were considered. Their constants may differ, and so may the
    bytes that are resident before a call.
    """

    splitting: Splitting
    forms: Forms
    graphs: Sequence[Graph]


def _smallest(forms: Forms, within: Found) -> _Smallest:
    """Return the search with the smallest plan that is also found if its bytes are the budget.

    The smallest limit that is reported must be feasible. But rewrites depend on the budget, and
    with one node more the plan would exceed that limit. So the search is repeated with the budget
    of the smallest plan.
    """
    projector, wanted = forms.projector, _ops(forms.rewritten.graph)
    graphs = [forms.rewritten.graph]
    for _ in range(SETTINGS.tries):
        budget = projector.working_set(within.splitting.graph)
        again = rewrite_graph(forms.cleaned, projector.ops, forms.rules, budget)
        graphs.append(again.graph)
        forms = replace(forms, rewritten=again, budget=budget)
        if _ops(again.graph) == wanted:
            break
        wanted = _ops(again.graph)
        found = first_within(projector, forms, budget, forms.options)
        if projector.working_set(found.graph) <= budget:
            break
        within = found
    return _Smallest(within.splitting, forms, graphs)


def _ops(graph: Graph) -> list[tuple[str, tuple[Shape | None, ...]]]:
    """Return the ops and shapes of a graph's nodes, by which graphs for two budgets may differ."""
    return [(node.op, tuple(t.shape for t in node.outputs)) for node in graph.nodes]


def _too_large(run: _Run, function: str, found: _Smallest) -> MemoryLimitError:
    """Return the error that reports the smallest limit."""
    graph, smallest = max(found.graphs, key=run.held), found.splitting
    projector, held, taken = run.projector, run.held(graph), run.options.allocator.taken
    whole = max(graph_seconds(projector.ops, graph), 1e-9)
    least = projector.working_set(smallest.graph)

    def slowdown(budget: int) -> float:
        fitted = fit_loops(projector, smallest.graph, budget, run.options)
        holds = projector.working_set(fitted) <= budget
        return graph_seconds(projector.ops, fitted if holds else smallest.graph) / whole

    slow = slowdown(least)  # within `least`, all loops but the largest may get larger chunks
    if slow > _DOUBTFUL:  # another plan within this limit may be faster than the smallest one
        planned = first_within(projector, found.forms, least, run.options).graph
        if projector.working_set(planned) <= least:
            slow = graph_seconds(projector.ops, planned, promises=False) / whole
    more = (int(factor * least) for factor in _MORE) if slow > SETTINGS.slow else ()
    unsplit = projector.working_set(graph) if slow > SETTINGS.slow else None
    faster = next((budget for budget in more if slowdown(budget) < SETTINGS.slow), unsplit)
    return MemoryLimitError(
        function,
        limit=run.limit,
        resident=held,
        projected_peak=held + taken(projector.working_set(graph)),
        smallest_limit=held + taken(least),
        blocker=blocker(projector, smallest.graph, smallest.refusals),
        residents=largest_residents(smallest.graph),
        parts=peak_parts(projector, smallest.graph),
        slowdown=slow,
        faster_limit=None if faster is None else held + taken(faster),
    )


_DOUBTFUL = 10
"""A slowdown for which the limit is planned again, at the price of a second search: the smallest
plan has the smallest chunks, whose time is estimated up to ten times too high."""
_MORE = (33 / 32, 17 / 16, 9 / 8, 5 / 4, 3 / 2, 2, 4, 8)
"""Larger limits that are tried, as factors of the smallest."""


def _uncounted(
    projector: Projector, graph: Graph, function: str, options: Options
) -> tuple[str, ...]:
    """Return warnings about nodes whose memory nothing bounds, or raise `UnboundedMemoryError`.

    Sizes from outside of the program only warn, unless `options.unbounded` is "refuse".
    """
    messages = []
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
        outside = "refuse" if found.outside else "raise"
        if options.unbounded in (outside, "refuse"):
            raise error
        names = ", ".join(_unknown_arguments(graph, found.node))
        hint = f" It depends on {names}, whose sizes are not known." if names else ""
        messages.append(f"{error} It is not counted.{hint}")
    return tuple(messages)


def _unknown_arguments(graph: Graph, node: Node) -> list[str]:
    """Return the names of the inputs of unknown size that a node depends on."""
    read = {tensor for one in ancestors([node], producers(graph)) for tensor in one.inputs}
    return [one.name for one in graph.inputs if one in read and is_of_unknown_size(one)]


def _steps(
    projector: Projector, cleaned: Graph, within: Found, final: Graph, speed: Splitting | None
) -> tuple[Step, ...]:
    """Return the steps from the program to the plan; `speed`: the split for the cache, if any."""
    form, late = Trace(projector), Trace(projector)
    if within.form.graph is not cleaned:
        failed = [
            Alternative(
                one.form.name,
                projector.working_set(one.graph),
                graph_seconds(projector.ops, one.graph),
                one.lost,
            )
            for one in within.others
        ]
        form.take(within.form.name, cleaned, within.form.graph, failed)
    if speed is None and final is not within.graph:
        late.take("late passes", within.graph, final)
    searched = within.splitting.steps if speed is None else speed.steps
    return (*form.steps(), *searched, *late.steps())
