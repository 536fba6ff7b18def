"""Shards of chunks: each device runs some iterations of the loops of the plan for one device.

A device receives the loop's inputs whole, and its iterations are those of the plan for one device.
So symmetric tiles can be used, which is not possible with shards of rows: each tile below the
diagonal is computed once, and contributes to its rows and to its columns.
"""

from __future__ import annotations

import dataclasses
import time
from itertools import accumulate

from tf_exla.errors import MemoryLimitError
from tf_exla.ir.graph import Graph, Loop, Node, Tensor, const
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import walk
from tf_exla.model.cost import graph_seconds, node_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.shard.accounts import Accounts
from tf_exla.shard.loops import Fleet, merging_bytes, sending_bytes
from tf_exla.shard.parts import LocalPart, parts_of
from tf_exla.shard.plan import Planned, PlannedLocal, PlannedLoop, ShardedPlan


# Many parameters: those of `optimize_graph`, and the devices.
def shard_chunks(
    alone: Plan, ops: OpSet, fleet: Fleet, limit: int, options: Options, function: str
) -> ShardedPlan | None:
    """Return `alone`, a plan for one device, with its loops in shards.

    Combining the results of shards takes memory in addition to that of the plan. If the sum exceeds
    `limit` bytes, the program is planned again for a smaller limit. None if a loop cannot be
    sharded, or if no plan is within the limit.
    """
    made = _in_shards(alone, ops, fleet, options)
    if made is None or made.projected_peak <= limit:
        return made
    less = limit - (made.projected_peak - limit)
    try:
        smaller = optimize_graph(
            alone.original, ops, limit=less, options=options, function=function
        )
    except MemoryLimitError:
        return None
    made = _in_shards(smaller, ops, fleet, options)
    if made is None or made.projected_peak > limit:
        return None
    return dataclasses.replace(made, limit=limit)


def _in_shards(plan: Plan, ops: OpSet, fleet: Fleet, options: Options) -> ShardedPlan | None:
    started = time.perf_counter()
    if not all(_is_sharded(node, fleet) for node in plan.graph.nodes if isinstance(node, Loop)):
        return None
    parts = _Parts(plan, ops, fleet, options)
    planned = parts.run()
    if not any(isinstance(part, PlannedLoop) for part in planned):
        return None
    uses = parts.accounts.uses(parts.local_seconds, parts.computing_seconds)
    most = max(uses, key=lambda use: use.projected_peak)
    link = fleet.link.seconds(parts.sent, 2 * parts.rounds)
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(Plan)}
    fields |= {
        "resident": most.resident,
        "working_set": most.working_set,
        "seconds": plan.seconds + time.perf_counter() - started,
    }
    return ShardedPlan(
        **fields,
        parts=planned,
        fleet=fleet,
        uses=uses,
        sent=parts.sent,
        seconds_sharded=parts.local_seconds + parts.computing_seconds + link,
    )


def _is_sharded(loop: Loop, fleet: Fleet) -> bool:
    """Return whether a loop can be sharded.

    Its iterations must be independent and at least as many as the shards, and all sizes static.
    """
    return (
        not loop.folds
        and loop.bitwise_group is None
        and loop.iterations >= fleet.shards >= 2
        and all(tensor.is_static for tensor in (*loop.inputs, *loop.outputs))
    )


class _Parts:
    def __init__(self, plan: Plan, ops: OpSet, fleet: Fleet, options: Options) -> None:
        self.plan = plan
        self.ops = ops
        self.fleet = fleet
        self.projector = Projector(ops)
        self.taken = options.allocator.taken
        self.parts = parts_of(plan.graph)
        self.inputs = frozenset(plan.graph.inputs)
        self.accounts = Accounts(plan.graph, self.parts, fleet, self._kept, self._sending)
        self.local_seconds = self.computing_seconds = 0.0
        self.sent = self.rounds = 0

    def run(self) -> tuple[Planned, ...]:
        planned: list[Planned] = []
        for at, part in enumerate(self.parts):
            if isinstance(part, LocalPart):
                self.local_seconds += graph_seconds(self.ops, part.graph)
                self.accounts.local(at, self.taken(self.projector.working_set(part.graph)))
                planned.append(PlannedLocal(part.inputs, part.outputs, part.graph))
            else:
                planned.append(self._sharded(at, part.loop))
        return tuple(planned)

    def _kept(self, loop: Loop) -> int:
        return sum(tensor.nbytes for tensor in set(loop.inputs) if tensor in self.inputs)

    def _sending(self, loop: Loop) -> int:
        whole = sum(tensor.nbytes for tensor in set(loop.inputs))
        return sending_bytes(self.fleet, self.fleet.shards, 0, whole)

    def _sharded(self, at: int, loop: Loop) -> PlannedLoop:
        fleet = self.fleet
        shards = _ranges(loop, fleet.shards)
        inputs = tuple(dict.fromkeys(loop.inputs))
        graphs = tuple(_shard(self.ops, loop, inputs, indices) for indices in shards)
        sent = sum(tensor.nbytes for tensor in inputs if tensor not in self.inputs)
        for graph in graphs:
            constants = resident_bytes(graph) - sum(tensor.nbytes for tensor in graph.inputs)
            working_set = self.taken(self.projector.working_set(graph))
            self.accounts.shard(at, sent + constants, working_set)
        came = [sum(graph.outputs[k].nbytes for graph in graphs) for k in range(len(loop.outputs))]
        merging = sum(
            merging_bytes(result.combine, nbytes, whole.nbytes)
            for result, nbytes, whole in zip(loop.results, came, loop.outputs, strict=True)
        )
        results = sum(came)
        self.accounts.local(at, results + merging)
        rounds = -(-fleet.shards // fleet.devices)
        self.rounds += rounds
        self.sent += sent * fleet.devices + results
        seconds = node_seconds(self.ops, loop) / fleet.shards
        self.computing_seconds += rounds * seconds
        return PlannedLoop(
            loop, inputs, (None,) * len(inputs), shards, graphs, (0,) * len(shards), seconds
        )


def _ranges(loop: Loop, count: int) -> tuple[range, ...]:
    """Return the indices of each shard: whole chunks, with about equal work."""
    inner = (node for graph in (loop.body,) for node in walk(graph) if isinstance(node, Loop))
    grows = any(node.triangular for node in inner)
    # For symmetric tiles, chunk k has k tiles before the diagonal. The tile on the diagonal is
    # contracted only once, so it counts as a half.
    works = [k + 0.5 if grows else 1.0 for k in range(loop.iterations)]
    done = list(accumulate(works))
    ends: list[int] = []
    for shard in range(1, count):
        wanted = done[-1] * shard / count
        first = ends[-1] + 1 if ends else 1
        last = loop.iterations - (count - shard)
        ends.append(min(range(first, last + 1), key=lambda end: abs(done[end - 1] - wanted)))
    bounds = [0, *(end * loop.chunk for end in ends), loop.extent]
    return tuple(range(bounds[k], bounds[k + 1]) for k in range(count))


def _shard(ops: OpSet, loop: Loop, inputs: tuple[Tensor, ...], indices: range) -> Graph:
    """Return the program of one shard, which runs the iterations of the loop at `indices`.

    It returns only the rows at these indices of concatenated results.
    """
    part = loop.replace(span=indices, outputs=tuple(tensor.fresh_copy() for tensor in loop.outputs))
    nodes: list[Node] = [part]
    outputs = []
    for tensor, result in zip(part.outputs, loop.results, strict=True):
        if result.slot is None:
            outputs.append(tensor)
            continue
        axis, block = result.slot.axis, result.slot.block
        begin = [0] * len(tensor.dims)
        begin[axis] = indices.start * block
        size = list(tensor.dims)
        size[axis] = len(indices) * block
        bounds = [const(value, f"{loop.name}/rows", "int32") for value in (begin, size)]
        rows = ops.make("slice", (tensor, *(one.output for one in bounds)), {}, loop.name)
        assert rows is not None
        nodes += [*bounds, rows]
        outputs.append(rows.output)
    return Graph(inputs, tuple(nodes), tuple(outputs))
