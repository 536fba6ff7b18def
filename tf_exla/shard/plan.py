"""The plan of a sharded program: each part within the limit of the device that it runs on."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tf_exla.errors import MemoryLimitError, UnboundedMemoryError
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
from tf_exla.shard.link import Link
from tf_exla.shard.loops import (
    Fleet,
    combined_bytes,
    read_whole,
    sent_bytes,
    shard_loops,
    sharded_seconds,
)
from tf_exla.shard.parts import LocalPart, ShardedPart, parts_of
from tf_exla.split.region import RefusedSplit


@dataclass(frozen=True, eq=False)
class PlannedLocal:
    """A part on the driver. `graph`: its inputs and outputs are tensors of the program."""

    graph: Graph
    plan: Plan


@dataclass(frozen=True, eq=False)
class PlannedLoop:
    """A loop in shards. `bodies`: a plan for each number of indices that a shard has."""

    loop: Loop
    bodies: Mapping[int, Plan]

    def ranges(self) -> Iterator[range]:
        """Yield the indices of each shard."""
        for start in range(0, self.loop.extent, self.loop.chunk):
            yield range(start, min(start + self.loop.chunk, self.loop.extent))


@dataclass(frozen=True)
class DeviceUse:
    """What one device holds and does in a call; bytes and estimated seconds.

    `resident`: arguments, captured tensors, or its parts of them, that stay between calls.
    """

    name: str
    resident: int
    working_set: int
    seconds: float

    @property
    def projected_peak(self) -> int:
        return self.resident + self.working_set


@dataclass(frozen=True)
class ShardedPlan(Plan):
    """A plan for several devices; what a `Plan` has is about the device that needs the most.

    `sent`: bytes that go from and to the driver in each call. `seconds_on_one`, `seconds_sharded`:
    estimates for one device, and for all of them with what is sent.
    """

    parts: tuple[PlannedLocal | PlannedLoop, ...] = ()
    fleet: Fleet = dataclasses.field(default_factory=lambda: Fleet(1, 1, Link(0, 0)))
    uses: tuple[DeviceUse, ...] = ()
    sent: int = 0
    seconds_on_one: float = 0.0
    seconds_sharded: float = 0.0


# Many parameters: those of `optimize_graph`, and the devices.
def shard_graph(
    graph: Graph,
    ops: OpSet,
    fleet: Fleet,
    *,
    limit: int,
    options: Options | None = None,
    function: str = "function",
) -> Plan:
    """Plan `graph` for several devices, each of which stays below `limit` bytes.

    Where no part is faster on several devices, or only one device holds the limit, the plan is that
    of one (no `ShardedPlan`). Raises `MemoryLimitError` where no plan holds the limit.
    """
    options = options or Options()
    try:
        made = _sharded(graph, ops, fleet, limit, options, function)
    except (MemoryLimitError, UnboundedMemoryError) as error:
        if fleet.apart:
            raise
        try:
            return optimize_graph(graph, ops, limit=limit, options=options, function=function)
        except MemoryLimitError as alone:
            raise min(error, alone, key=_needed) from None
    if made is not None:
        return made
    return optimize_graph(graph, ops, limit=limit, options=options, function=function)


def _needed(error: MemoryLimitError | UnboundedMemoryError) -> float:
    return error.smallest_limit if isinstance(error, MemoryLimitError) else math.inf


# Many parameters: those of `shard_graph`.
def _sharded(
    graph: Graph, ops: OpSet, fleet: Fleet, limit: int, options: Options, function: str
) -> ShardedPlan | None:
    """Return the plan for several devices; None where one is as fast."""
    started = time.perf_counter()
    projector = Projector(ops)
    check_graph(graph)
    cleaned = clean(graph, ops)
    # Shards are planned with all rewrites; here are those that keep a large axis in one piece.
    rules = chosen({**options.rewrites, **dict.fromkeys((SMALL_AXES, TRIANGLES, SYMMETRY), False)})
    room = max(limit - resident_bytes(cleaned) + sum(one.nbytes for one in fleet.apart), 0)
    rewritten = rewrite_graph(cleaned, ops, rules, room).graph
    made, refusals = shard_loops(projector, rewritten, fleet, room)
    loops = [node for node in made.nodes if isinstance(node, Loop)]
    if whole := read_whole(made, fleet):
        raise _needs_whole(function, whole, refusals)
    if not loops:
        return None
    check_graph(made, graph)
    parts = _Parts(made, ops, fleet, limit, options, function)
    planned = parts.run()
    uses = parts.uses()
    most = max(uses, key=lambda use: use.projected_peak)
    held = frozenset(made.inputs)
    taken = options.allocator.taken
    return ShardedPlan(
        graph=_with_bodies(made, planned),
        limit=limit,
        resident=most.resident,
        working_set=most.working_set,
        working_set_before=taken(projector.working_set(graph)),
        original=graph,
        projection=parts.largest.projection,
        projection_before=projector.project(graph),
        refusals=tuple(refusals),
        seconds=time.perf_counter() - started,
        parts=planned,
        fleet=fleet,
        uses=uses,
        sent=sum(sent_bytes(loop, fleet, held) for loop in loops),
        seconds_on_one=graph_seconds(ops, rewritten),
        seconds_sharded=sharded_seconds(projector, made, fleet),
    )


def _needs_whole(
    function: str, whole: list[tuple[Tensor, Node]], refusals: list[RefusedSplit]
) -> ValueError:
    """Return the error that a sharded tensor is read by what is no loop over its rows."""
    tensor, node = whole[0]
    if isinstance(node, Loop):  # the user's op that reads it
        inner = {one for k, one in enumerate(node.template.inputs) if node.inputs[k] is tensor}
        node = next(one for one in node.template.nodes if not inner.isdisjoint(one.inputs))
    where = f" ({node.source})" if node.source else ""
    why = "; ".join(dict.fromkeys(one.reason for one in refusals if one.node is node))
    reason = f": {why}" if why else ""
    return ValueError(
        f"{function}: {tensor} is sharded, and {node.name or node.op}, {node.op}{where}, reads it "
        f"otherwise than in a loop over its rows{reason}"
    )


def _with_bodies(graph: Graph, planned: tuple[PlannedLocal | PlannedLoop, ...]) -> Graph:
    """Return the graph with the planned shards as bodies of its loops, for reports."""
    bodies = {one.loop: one.bodies for one in planned if isinstance(one, PlannedLoop)}
    nodes = [
        node.replace(body=bodies[node][node.chunk].graph, remainder=_rest(node, bodies[node]))
        if isinstance(node, Loop)
        else node
        for node in graph.nodes
    ]
    return graph.replace(nodes=tuple(nodes))


def _rest(loop: Loop, bodies: Mapping[int, Plan]) -> Graph | None:
    rest = loop.extent % loop.chunk
    return bodies[rest].graph if rest else None


class _Parts:
    """Plans the parts in order, and counts what devices hold.

    The driver holds the program's inputs and constants, and what parts hand to later ones. A device
    holds its shards' parts of the program's inputs, and during a shard its other operands. Where
    the driver is one of the devices, it holds both.
    """

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
        self.driver = resident_bytes(graph) - sum(tensor.nbytes for tensor in fleet.apart)
        loops = [part.loop for part in self.parts if isinstance(part, ShardedPart)]
        self.kept = sum(self._kept(loop) for loop in loops)
        self.driver_peak = self.device_peak = 0
        self.largest: Plan
        self._largest_peak = -1

    def run(self) -> tuple[PlannedLocal | PlannedLoop, ...]:
        planned: list[PlannedLocal | PlannedLoop] = []
        for at, part in enumerate(self.parts):
            handed = self._handed(at)
            if isinstance(part, LocalPart):
                planned.append(self._local(part.graph, handed))
            else:
                planned.append(self._sharded(part.loop, handed))
        return tuple(planned)

    def uses(self) -> tuple[DeviceUse, ...]:
        """Return what each device holds, the driver first."""
        fleet = self.fleet
        rest = self.graph.replace(
            nodes=tuple(n for n in self.graph.nodes if not isinstance(n, Loop))
        )
        local = graph_seconds(self.ops, rest)
        computing = sum(
            -(-node.iterations // fleet.devices) * graph_seconds(self.ops, node.body)
            for node in self.graph.nodes
            if isinstance(node, Loop)
        )
        own = 0 if fleet.remote else self.kept
        seconds = local if fleet.remote else local + computing
        resident = self.driver + own
        driver = DeviceUse("driver", resident, self.driver_peak - resident, seconds)
        others = fleet.devices if fleet.remote else fleet.devices - 1
        device = (self.kept, self.device_peak - self.kept, computing)
        first = 0 if fleet.remote else 1
        return (driver, *(DeviceUse(f"device {first + k}", *device) for k in range(others)))

    def _kept(self, loop: Loop) -> int:
        """Return the bytes of the program's inputs that a device keeps for its shards of a loop."""
        shards = -(-loop.iterations // self.fleet.devices)
        return sum(
            inner.nbytes * (1 if slot is None else shards)
            for outer, inner, slot in zip(loop.inputs, loop.body.inputs, loop.slots, strict=True)
            if outer in self.inputs
        )

    def _handed(self, at: int) -> int:
        """Return the bytes of what earlier parts made and part `at`, or a later one, reads."""
        made: dict[Tensor, None] = {}
        for part in self.parts[:at]:
            made.update(dict.fromkeys(_outputs(part)))
        read = {tensor for part in self.parts[at:] for tensor in _inputs(part)}
        read.update(self.graph.outputs)
        return sum(tensor.nbytes for tensor in made if tensor in read)

    def _local(self, graph: Graph, handed: int) -> PlannedLocal:
        held = self.driver + handed + (0 if self.fleet.remote else self.kept)
        plan = self._plan(graph, held, self.function)
        self.driver_peak = max(self.driver_peak, plan.projected_peak)
        return PlannedLocal(graph, plan)

    def _sharded(self, loop: Loop, handed: int) -> PlannedLoop:
        driver = self.driver + handed
        bodies = {}
        for graph in filter(None, (loop.body, loop.remainder)):
            size = loop.chunk if graph is loop.body else loop.extent % loop.chunk
            sent = sum(
                inner.nbytes
                for outer, inner in zip(loop.inputs, graph.inputs, strict=True)
                if outer not in self.inputs
            )
            constants = resident_bytes(graph) - sum(tensor.nbytes for tensor in graph.inputs)
            held = self.kept + sent + constants
            own = held if self.fleet.remote else held + driver
            name = f"{self.function}, {size} of {loop.extent} along {loop.axis}"
            plan = bodies[size] = self._plan(graph, own, name)
            self.device_peak = max(self.device_peak, held + plan.working_set)
            if not self.fleet.remote:
                self.driver_peak = max(self.driver_peak, own + plan.working_set)
        own = 0 if self.fleet.remote else self.kept
        combining = driver + own + combined_bytes(loop)
        self.driver_peak = max(self.driver_peak, combining)
        if combining > self.limit:
            raise MemoryLimitError(
                f"{self.function}, combining {loop.iterations} shards along {loop.axis}",
                limit=self.limit,
                resident=self.driver,
                projected_peak=combining,
                smallest_limit=combining,
                blocker=None,
            )
        return PlannedLoop(loop, bodies)

    def _plan(self, graph: Graph, held: int, name: str) -> Plan:
        plan = optimize_graph(
            graph, self.ops, limit=self.limit, resident=held, options=self.options, function=name
        )
        if plan.projected_peak > self._largest_peak:
            self.largest, self._largest_peak = plan, plan.projected_peak
        return plan


def _inputs(part: LocalPart | ShardedPart) -> tuple[Tensor, ...]:
    return part.graph.inputs if isinstance(part, LocalPart) else part.loop.inputs


def _outputs(part: LocalPart | ShardedPart) -> tuple[Tensor, ...]:
    return part.graph.outputs if isinstance(part, LocalPart) else part.loop.outputs
