"""The passes in order: Graph -> Plan."""

from __future__ import annotations

import time
from collections.abc import Callable

from tf_exla.check import GraphError, check_graph
from tf_exla.errors import Blocker, MemoryLimitError
from tf_exla.graph import Graph, Node, Tensor, producers
from tf_exla.memory import Projector, resident_bytes
from tf_exla.op_set import OpSet
from tf_exla.options import Options
from tf_exla.passes.clean import clean
from tf_exla.passes.splitting.chunks import fit_loops
from tf_exla.passes.splitting.region import Refusal
from tf_exla.passes.splitting.search import split
from tf_exla.plan import Plan

Pass = Callable[[Graph], Graph]

REWRITES: tuple[tuple[str, Callable[[Graph, OpSet], Graph]], ...] = (("clean", clean),)
"""The rewrites that run before splitting, in order."""


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
    projector = Projector(ops)
    check_graph(graph)
    rewritten = graph
    for name, rewrite in REWRITES:
        rewritten = _checked(name, rewrite(rewritten, ops), graph)
    held = resident_bytes(rewritten) if resident is None else resident
    final, refusals = _within(projector, rewritten, limit - held, options)
    _checked("split", final, graph)
    working_set = projector.working_set(final)
    if held + working_set > limit:
        raise _limit_error(projector, rewritten, refusals, function, limit, held, options)
    return Plan(
        graph=final,
        limit=limit,
        resident=held,
        working_set=working_set,
        working_set_before=projector.working_set(graph),
        original=graph,
        projection=projector.project(final),
        projection_before=projector.project(graph),
        refusals=refusals,
        seconds=time.perf_counter() - started,
    )


def _checked(name: str, graph: Graph, original: Graph) -> Graph:
    try:
        check_graph(graph, original)
    except GraphError as error:
        raise GraphError(f"pass {name!r}: {error}") from error
    return graph


def _within(
    projector: Projector, graph: Graph, budget: int, options: Options
) -> tuple[Graph, tuple[Refusal, ...]]:
    """Split the graph for the budget; where the search fails, from the smallest plan on."""
    splitting = split(projector, graph, budget, options)
    if projector.working_set(splitting.graph) <= budget or budget <= 0:
        return splitting.graph, splitting.refusals
    smallest = split(projector, graph, 0, options)
    return fit_loops(projector, smallest.graph, budget, options), smallest.refusals


def _limit_error(
    projector: Projector,
    graph: Graph,
    refusals: tuple[Refusal, ...],
    function: str,
    limit: int,
    resident: int,
    options: Options,
) -> MemoryLimitError:
    """Describe the smallest plan: the one that no limit can improve."""
    smallest = split(projector, graph, 0, options)
    working_set = projector.working_set(smallest.graph)
    return MemoryLimitError(
        function,
        limit=limit,
        resident=resident,
        projected_peak=resident + projector.working_set(graph),
        smallest_limit=resident + working_set,
        blocker=_blocker(projector, smallest.graph, smallest.refusals or refusals),
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
