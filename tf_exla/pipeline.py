"""The passes in order: Graph -> Plan."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tf_exla.check import GraphError, check_graph
from tf_exla.errors import Blocker, MemoryLimitError
from tf_exla.graph import Graph, Node, Tensor, producers
from tf_exla.memory import Projector, resident_bytes
from tf_exla.op_set import OpSet
from tf_exla.options import Options
from tf_exla.passes.clean import clean
from tf_exla.passes.lowering import lower
from tf_exla.passes.rewriting import chosen, rewrite_graph
from tf_exla.passes.sinking import sink
from tf_exla.passes.splitting.chunks import fit_loops
from tf_exla.passes.splitting.region import Refusal
from tf_exla.passes.splitting.search import Splitting, split
from tf_exla.plan import Plan

LEAST = 1 << 16
FRACTION = 50
"""Tensors above this fraction of the working set, and above LEAST bytes, are worth more passes."""


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
    Raises `MemoryLimitError` where no plan holds the limit.
    """
    started = time.perf_counter()
    options = options or Options()
    projector = Projector(ops, compiled=bool(options.jit_compile))
    check_graph(graph)
    cleaned = _checked("clean", clean(graph, ops), graph)
    found = rewrite_graph(cleaned, ops, chosen(options.rewrites))
    rewritten = _checked("rewrite", found.graph, graph)
    held = resident_bytes(rewritten) if resident is None else resident
    final, splitting = _within(projector, rewritten, limit - held, options)
    _checked("split", final, graph)
    working_set = projector.working_set(final)
    if held + working_set > limit:
        raise _limit_error(projector, rewritten, splitting, function, limit, held)
    return Plan(
        graph=final,
        limit=limit,
        resident=held,
        working_set=working_set,
        working_set_before=projector.working_set(graph),
        original=graph,
        projection=projector.project(final),
        projection_before=projector.project(graph),
        refusals=splitting.refusals,
        seconds=time.perf_counter() - started,
        applications=found.applications,
    )


def _checked(name: str, graph: Graph, original: Graph) -> Graph:
    try:
        check_graph(graph, original)
    except GraphError as error:
        raise GraphError(f"pass {name!r}: {error}") from error
    return graph


def _within(
    projector: Projector, graph: Graph, budget: int, options: Options
) -> tuple[Graph, Splitting]:
    """Return the first form of the program whose split holds the budget; else the smallest.

    With the split graph comes the smallest plan of that form: the one that no limit can improve.
    """
    found: list[tuple[Graph, Splitting]] = []
    for form in _forms(projector, graph):
        splitting = split(projector, form, budget, options)
        if projector.working_set(splitting.graph) <= budget:
            return splitting.graph, splitting
        smallest = split(projector, form, 0, options)
        fitted = fit_loops(projector, smallest.graph, budget, options)
        if projector.working_set(fitted) <= budget:
            return fitted, smallest
        found.append((smallest.graph, smallest))
    return min(found, key=lambda one: projector.working_set(one[0]))


def _forms(projector: Projector, graph: Graph) -> Iterator[Graph]:
    """Yield the program in forms that can be split further, each at the price of more work."""
    least = max(projector.working_set(graph) // FRACTION, LEAST)
    yield graph
    sunk = sink(graph, least)
    if sunk is not graph:
        yield sunk
    for form in dict.fromkeys((graph, sunk)):
        lowered = lower(form, projector.ops, least)
        if lowered is not form:
            yield lowered


def _limit_error(
    projector: Projector,
    graph: Graph,
    smallest: Splitting,
    function: str,
    limit: int,
    resident: int,
) -> MemoryLimitError:
    """Describe the smallest plan: the one that no limit can improve."""
    return MemoryLimitError(
        function,
        limit=limit,
        resident=resident,
        projected_peak=resident + projector.working_set(graph),
        smallest_limit=resident + projector.working_set(smallest.graph),
        blocker=_blocker(projector, smallest.graph, smallest.refusals),
    )


def _blocker(
    projector: Projector, graph: Graph, refusals: tuple[Refusal, ...]
) -> Blocker | None:
    live = projector.project(graph).live
    if not live:
        return None
    tensor, _ = live[0]
    node = producers(graph).get(tensor)
    refusal = next((one for one in refusals if one.tensor is tensor), None)
    if refusal is None:
        refusal = max(refusals, key=lambda one: one.tensor.nbytes, default=None)
        if refusal is not None and refusal.tensor.nbytes < tensor.nbytes:
            refusal = None
        if refusal is not None:
            tensor = refusal.tensor
    return _describe(tensor, node, refusal, graph)


def _describe(
    tensor: Tensor, node: Node | None, refusal: Refusal | None, graph: Graph
) -> Blocker:
    source = node.source if node is not None else ""
    if refusal is not None:
        reason = refusal.reason
    elif tensor in graph.outputs:
        reason = "it is an output of the function and must exist whole"
    else:
        reason = "no axis of it can be split"
    return Blocker(
        tensor=tensor.name,
        shape=tensor.shape or (),
        dtype=tensor.dtype,
        bytes=tensor.nbytes,
        axis=None if refusal is None else refusal.axis,
        op=None if refusal is None else refusal.node.op,
        reason=reason,
        source=source,
    )
