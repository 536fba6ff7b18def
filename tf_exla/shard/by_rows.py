"""Shards of rows: a region of the program is split along an axis into one chunk per shard.

A device receives only the rows of its shards, and each shard is planned as a separate program.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tf_exla.errors import MemoryLimitError
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite import chosen, rewrite_graph
from tf_exla.rewrite.families import SYMMETRY
from tf_exla.rewrite.small_axes import FAMILY as SMALL_AXES
from tf_exla.rewrite.triangles import FAMILY as TRIANGLES
from tf_exla.shard.accounts import Accounts
from tf_exla.shard.loops import (
    Fleet,
    combined_bytes,
    kept_rows,
    read_whole,
    rows_sending,
    sent_bytes,
    shard_loops,
)
from tf_exla.shard.parts import LocalPart, parts_of
from tf_exla.shard.plan import Planned, PlannedLocal, PlannedLoop, ShardedPlan
from tf_exla.split.regions.region import RefusedSplit


# Many parameters: those of `optimize_graph`, and the devices.
def shard_rows(
    graph: Graph, ops: OpSet, fleet: Fleet, limit: int, options: Options, function: str
) -> ShardedPlan | None:
    """Return a plan in shards of rows; None if no region is faster on several devices.

    Raises `MemoryLimitError` if a part cannot be planned within `limit` bytes per device, and
    ValueError if a tensor that no device holds whole is read whole, or returned.
    """
    started = time.perf_counter()
    projector = Projector(ops)
    check_graph(graph)
    cleaned = clean(graph, ops)
    # Shards are planned with all rewrites. Here, only rewrites that keep large axes whole are used,
    # so that regions can be split along these.
    rules = chosen({**options.rewrites, **dict.fromkeys((SMALL_AXES, TRIANGLES, SYMMETRY), False)})
    room = max(limit - resident_bytes(cleaned) + sum(one.nbytes for one in fleet.apart), 0)
    rewritten = rewrite_graph(cleaned, ops, rules, room).graph
    made, refusals, least = shard_loops(projector, rewritten, fleet, room)
    if whole := read_whole(made, fleet):
        if least:
            held = limit - room
            raise _cannot_combine(f"{function}, combining shards", limit, held, held + least)
        raise _needs_whole(function, whole, refusals)
    for tensor in fleet.apart.intersection(made.outputs):
        raise ValueError(f"{function}: {tensor} is sharded, and returned as it is")
    if not any(isinstance(node, Loop) for node in made.nodes):
        return None
    check_graph(made, graph)
    parts = _Parts(made, ops, fleet, limit, options, function)
    planned = parts.run()
    uses = parts.accounts.uses(parts.local_seconds, parts.computing_seconds)
    most = max(uses, key=lambda use: use.projected_peak)
    sent = parts.sent
    return ShardedPlan(
        graph=_with_bodies(made, planned),
        limit=limit,
        resident=most.resident,
        working_set=most.working_set,
        working_set_before=options.allocator.taken(projector.working_set(graph)),
        original=graph,
        projection=parts.largest.projection,
        projection_before=projector.project(graph),
        refusals=tuple(refusals),
        seconds=time.perf_counter() - started,
        parts=planned,
        fleet=fleet,
        uses=uses,
        sent=sent,
        seconds_sharded=parts.local_seconds
        + parts.computing_seconds
        + fleet.link.seconds(sent, 2 * parts.rounds),
    )


def _cannot_combine(what: str, limit: int, held: int, peak: int) -> MemoryLimitError:
    """Return the error for results of shards that need `peak` bytes on the driver."""
    return MemoryLimitError(
        what,
        limit=limit,
        resident=held,
        projected_peak=peak,
        smallest_limit=peak,
        blocker=None,
    )


class _Parts:
    """A planner of the parts in order; each gets the bytes of the limit that the others leave."""

    def __init__(
        self, graph: Graph, ops: OpSet, fleet: Fleet, limit: int, options: Options, function: str
    ) -> None:
        self.graph = graph
        self.ops = ops
        self.fleet = fleet
        self.limit = limit
        self.options = options
        self.function = function
        self.parts = parts_of(graph)
        self.inputs = frozenset(graph.inputs)
        self.rows = kept_rows(graph, fleet)
        self.accounts = Accounts(
            graph, self.parts, fleet, self._kept, lambda loop: rows_sending(loop, fleet)
        )
        self.local_seconds = self.computing_seconds = 0.0
        self.sent = self.rounds = 0
        self.largest: Plan
        self._largest_peak = -1

    def run(self) -> tuple[Planned, ...]:
        planned: list[Planned] = []
        for at, part in enumerate(self.parts):
            if isinstance(part, LocalPart):
                planned.append(self._local(at, part.graph))
            else:
                planned.append(self._sharded(at, part.loop))
        return tuple(planned)

    def _kept(self, loop: Loop) -> int:
        shards = -(-loop.iterations // self.fleet.devices)
        results = sum(
            shards * part.nbytes
            for whole, part in zip(loop.outputs, loop.body.outputs, strict=True)
            if whole in self.rows
        )
        return results + sum(
            inner.nbytes * (1 if slot is None else shards)
            for outer, inner, slot in zip(loop.inputs, loop.body.inputs, loop.slots, strict=True)
            if outer in self.inputs
        )

    def _local(self, at: int, graph: Graph) -> PlannedLocal:
        plan = self._plan(graph, self.accounts.on_driver(at), self.function)
        self.accounts.local(at, plan.working_set)
        self.local_seconds += graph_seconds(self.ops, plan.graph)
        return PlannedLocal(graph.inputs, graph.outputs, plan.graph)

    def _sharded(self, at: int, loop: Loop) -> PlannedLoop:
        plans: dict[int, Plan] = {}
        for graph in filter(None, (loop.body, loop.remainder)):
            size = loop.chunk if graph is loop.body else loop.extent % loop.chunk
            constants = resident_bytes(graph) - sum(tensor.nbytes for tensor in graph.inputs)
            sent = constants + sum(
                inner.nbytes
                for outer, inner, slot in zip(loop.inputs, graph.inputs, loop.slots, strict=True)
                # A device that runs a shard of a slow device is sent rows that it does not keep.
                if outer not in self.inputs or (slot is not None and self.fleet.remote)
            )
            name = f"{self.function}, {size} of {loop.extent} along {loop.axis}"
            plan = plans[size] = self._plan(graph, self.accounts.on_device(at, sent), name)
            self.accounts.shard(at, sent, plan.working_set)
        self._combine(at, loop)
        rounds = -(-loop.iterations // self.fleet.devices)
        self.rounds += rounds
        self.sent += sent_bytes(loop, self.fleet, self.inputs, self.rows)
        seconds = graph_seconds(self.ops, plans[loop.chunk].graph)
        self.computing_seconds += rounds * seconds
        starts = range(0, loop.extent, loop.chunk)
        shards = tuple(range(k, min(k + loop.chunk, loop.extent)) for k in starts)
        graphs = tuple(plans[len(one)].graph for one in shards)
        kept = self.rows.intersection(loop.outputs)
        return PlannedLoop(
            loop, loop.inputs, loop.slots, shards, graphs, tuple(starts), seconds, kept
        )

    def _combine(self, at: int, loop: Loop) -> None:
        combined = combined_bytes(loop, self.rows)
        peak = self.accounts.on_driver(at) + combined
        if peak > self.limit:
            what = f"{self.function}, combining {loop.iterations} shards along {loop.axis}"
            raise _cannot_combine(what, self.limit, self.accounts.held, peak)
        self.accounts.local(at, combined)

    def _plan(self, graph: Graph, held: int, name: str) -> Plan:
        plan = optimize_graph(
            graph, self.ops, limit=self.limit, resident=held, options=self.options, function=name
        )
        if plan.projected_peak > self._largest_peak:
            self.largest, self._largest_peak = plan, plan.projected_peak
        return plan


def _needs_whole(
    function: str, whole: list[tuple[Tensor, Node]], refusals: list[RefusedSplit]
) -> ValueError:
    """Return the error for a sharded tensor that is read other than by a loop over its rows."""
    tensor, node = whole[0]
    if isinstance(node, Loop):  # report the op of the program that reads it in the loop
        inner = {one for k, one in enumerate(node.template.inputs) if node.inputs[k] is tensor}
        node = next(one for one in node.template.nodes if not inner.isdisjoint(one.inputs))
    where = f" ({node.source})" if node.source else ""
    why = "; ".join(dict.fromkeys(one.reason for one in refusals if one.node is node))
    reason = f": {why}" if why else ""
    return ValueError(
        f"{function}: {tensor} is sharded, and {node.name or node.op}, {node.op}{where}, reads it "
        f"otherwise than in a loop over its rows{reason}"
    )


def _with_bodies(graph: Graph, planned: tuple[Planned, ...]) -> Graph:
    """Return the graph with the planned shards as bodies of its loops, for reports."""
    bodies: Mapping[Loop, tuple[Graph, ...]] = {
        one.loop: one.graphs for one in planned if isinstance(one, PlannedLoop)
    }
    nodes = []
    for node in graph.nodes:
        if isinstance(node, Loop):
            rest = bodies[node][-1] if node.remainder is not None else None
            node = node.replace(body=bodies[node][0], remainder=rest)
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))
