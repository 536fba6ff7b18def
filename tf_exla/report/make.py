"""Describe a plan as a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from tf_exla.errors import PeakPart
from tf_exla.ir.graph import Graph, Loop, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import count_nodes, producers
from tf_exla.model.cost import graph_flops
from tf_exla.model.projection import Projector, largest_tensors
from tf_exla.pipeline.plan import Plan
from tf_exla.report.data import (
    CostlyOp,
    LargeTensor,
    LoopEntry,
    Refusal,
    ResultEntry,
    RewriteEntry,
    ShardingEntry,
    TimelinePoint,
)
from tf_exla.report.graph import graph_nodes
from tf_exla.report.notes import plan_notes
from tf_exla.report.replan import Replan
from tf_exla.report.report import MemoryReport
from tf_exla.report.text import format_shape
from tf_exla.rewrite import Application
from tf_exla.shard.plan import ShardedPlan
from tf_exla.split.regions.region import RefusedSplit

LARGEST = 8
ALIVE = 3
"""Parts of the memory that are named for each step of a timeline."""
SPANS = 100
"""Largest tensors of the plan, from which those of each step are chosen."""


def make_report(
    plan: Plan, ops: OpSet, *, function: str, device: str = "CPU", notes: Sequence[str] = ()
) -> MemoryReport:
    """Describe a plan."""
    again = None
    if plan.options is not None:
        again = Replan(plan.original, ops, plan.options, function, device)
    return MemoryReport(
        again=again,
        function=function,
        device=device,
        limit=plan.limit,
        resident=plan.resident,
        working_set_before=plan.working_set_before,
        working_set=plan.working_set,
        projected_peak_before=plan.projected_peak_before,
        projected_peak=plan.projected_peak,
        nodes_before=count_nodes(plan.original),
        nodes=count_nodes(plan.graph),
        flops_before=graph_flops(ops, plan.original),
        flops=graph_flops(ops, plan.graph),
        largest=_largest(plan, plan.original, LARGEST),
        largest_left=next(iter(_largest(plan, plan.graph, 1)), None),
        loops=tuple(_loops(plan, ops)),
        steps=plan.steps,
        refusals=_refusals(plan.refusals, plan.graph),
        notes=(*notes, *plan_notes(plan, ops)),
        timeline_before=_timeline(plan, before=True),
        timeline=_timeline(plan, before=False),
        rewrite_seconds=plan.seconds,
        rewrites=_rewrites(plan),
        costly=_costly(plan, ops),
        graph_before=graph_nodes(plan.original),
        graph=graph_nodes(plan.graph),
        sharding=_sharding(plan),
    )


def _sharding(plan: Plan) -> ShardingEntry | None:
    if not isinstance(plan, ShardedPlan):
        return None
    return ShardingEntry(
        plan.uses, plan.fleet.shards, plan.sent, plan.seconds_on_one, plan.seconds_sharded
    )


def _costly(plan: Plan, ops: OpSet) -> tuple[CostlyOp, ...]:
    least = graph_flops(ops, plan.original) / 100

    def count(graph: Graph, times: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for node in graph.nodes:
            if isinstance(node, Loop):
                found += count(node.body, times * (node.extent // node.chunk))
            elif node.subgraphs:
                for _, sub in node.subgraphs:
                    found += count(sub, times)
            elif times * ops.flops(node) > least:
                found[node.op] += 1
        return found

    before, after = count(plan.original, 1), count(plan.graph, 1)
    return tuple(CostlyOp(op, before[op], after[op]) for op in sorted({*before, *after}))


def _rewrites(plan: Plan) -> tuple[RewriteEntry, ...]:
    """Sum up the applications of each rewrite, the largest saving of bytes first."""
    groups: dict[tuple[str, str], list[Application]] = {}
    for one in plan.applications:
        groups.setdefault((one.family, one.rewrite), []).append(one)
    entries = [
        RewriteEntry(
            rewrites=family,
            name=name,
            identity=group[0].identity,
            count=len(group),
            nodes=tuple(one.node for one in group),
            sources=tuple(dict.fromkeys(one.source for one in group if one.source)),
            flops_before=sum(one.flops_before for one in group),
            flops=sum(one.flops for one in group),
            bytes_before=sum(one.bytes_before for one in group),
            bytes=sum(one.bytes for one in group),
        )
        for (family, name), group in groups.items()
    ]
    return tuple(sorted(entries, key=lambda one: one.bytes - one.bytes_before))


def _largest(plan: Plan, graph: Graph, count: int) -> tuple[LargeTensor, ...]:
    whole = set(producers(plan.graph)) | set(plan.graph.inputs)
    return tuple(
        LargeTensor(
            name=tensor.name,
            op=node.op,
            shape=tensor.shape or (),
            dtype=tensor.dtype,
            bytes=tensor.nbytes,
            source=node.source,
            split=tensor not in whole,
        )
        for tensor, node in largest_tensors(graph, count)
    )


def _loops(plan: Plan, ops: OpSet) -> list[LoopEntry]:
    projector = Projector(ops)
    entries: list[LoopEntry] = []

    def visit(graph: Graph, depth: int, times: int) -> None:
        for node in graph.nodes:
            if isinstance(node, Loop):
                entries.append(_loop_entry(projector, node, depth, times))
                visit(node.body, depth + 1, times * (node.extent // node.chunk))
            else:
                for _, sub in node.subgraphs:
                    visit(sub, depth, times)

    visit(plan.graph, 0, 1)
    return entries


def _loop_entry(projector: Projector, loop: Loop, depth: int, times: int) -> LoopEntry:
    return LoopEntry(
        name=loop.name,
        stage=loop.stage,
        axis=loop.axis,
        extent=loop.extent,
        chunk=loop.chunk,
        iterations=loop.iterations,
        parallel=loop.parallel,
        results=tuple(
            ResultEntry(t.name, t.shape or (), t.dtype, t.nbytes, str(r))
            for t, r in zip(loop.outputs, loop.results, strict=True)
        ),
        recomputed=loop.recomputed,
        extra_flops=times * loop.recomputed_flops,
        body_peak=projector.project_body(loop, loop.body).working_set,
        nodes=count_nodes(loop.body),
        source=loop.source,
        depth=depth,
    )


def _refusals(found: Sequence[RefusedSplit], graph: Graph) -> tuple[Refusal, ...]:
    """Return refusals for tensors that still exist whole, one per axis, largest tensor first."""
    whole = set(producers(graph))
    unique: dict[tuple[Tensor, int], RefusedSplit] = {}
    for one in found:
        if one.tensor in whole:
            unique.setdefault((one.tensor, one.axis), one)
    ranked = sorted(unique.values(), key=lambda one: -one.tensor.nbytes)
    return tuple(
        Refusal(
            tensor=one.tensor.name,
            shape=one.tensor.shape or (),
            dtype=one.tensor.dtype,
            bytes=one.tensor.nbytes,
            axis=one.axis,
            op=one.node.op,
            node=one.node.name,
            reason=one.reason,
            source=one.node.source,
        )
        for one in ranked
    )


def _timeline(plan: Plan, *, before: bool) -> tuple[TimelinePoint, ...]:
    projection = plan.projection_before if before else plan.projection
    # Each step searches only the largest tensors of the plan, since plans have thousands of steps.
    spans = sorted(projection.lifetimes.spans, key=lambda span: -span[1])[:SPANS]
    points = []
    for position, step in enumerate(projection.steps):
        found = ((tensor, size) for tensor, size, first, last in spans if first <= position <= last)
        alive = [
            PeakPart(f"{tensor.name} {format_shape(tensor.shape or (), tensor.dtype)}", size)
            for tensor, size in islice(found, ALIVE)
        ]
        if step.temporary:
            alive.append(PeakPart("scratch memory", step.temporary))
        largest = tuple(sorted(alive, key=lambda part: -part.bytes)[:ALIVE])
        name = step.node.name or step.node.op
        points.append(TimelinePoint(name, step.node.op, step.bytes, step.node.source, largest))
    return tuple(points)
