"""The choice whether and how a program is sharded: the fastest plan within the limit."""

from __future__ import annotations

import dataclasses
import math

from tf_exla.errors import MemoryLimitError, UnboundedMemoryError
from tf_exla.ir.graph import Graph
from tf_exla.ir.op_set import OpSet
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.shard.by_chunks import shard_chunks
from tf_exla.shard.by_rows import shard_rows
from tf_exla.shard.loops import Fleet
from tf_exla.shard.plan import ShardedPlan

_Refused = MemoryLimitError | UnboundedMemoryError


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
    """Return the fastest plan of `graph` for several devices, each within `limit` bytes.

    It compares shards of rows, shards of the chunks of the plan for one device, and that plan
    itself. The latter, which is no `ShardedPlan`, is returned if it is as fast, or if no sharded
    plan is within the limit. If no device holds some input whole (`Fleet.apart`), only shards of
    rows are possible. Raises `MemoryLimitError` if no plan is within the limit.
    """
    options = options or Options()
    if fleet.apart:
        rows = shard_rows(graph, ops, fleet, limit, options, function)
        if rows is None:
            raise ValueError(f"{function} reads its sharded tensors in no loop over their rows")
        return rows
    alone: Plan | None = None
    errors: list[_Refused] = []
    try:
        alone = optimize_graph(graph, ops, limit=limit, options=options, function=function)
    except MemoryLimitError as error:
        errors.append(error)
    best: ShardedPlan | None = None
    if fleet.devices > 1:
        try:
            best = shard_rows(graph, ops, fleet, limit, options, function)
        except (MemoryLimitError, UnboundedMemoryError) as error:
            errors.append(error)
        chunks = None
        if alone is not None and not fleet.keep_rows:
            chunks = shard_chunks(alone, ops, fleet, limit, options, function)
        # Shards of rows are preferred at similar times: a device holds and receives only its part.
        if chunks is not None and (best is None or _is_faster(chunks, best.seconds_sharded)):
            best = chunks
    if alone is None:
        if best is None:
            raise min(errors, key=_needed)
        return best
    seconds = graph_seconds(ops, alone.graph)
    if best is None or not (fleet.keep_rows or _is_faster(best, seconds)):
        return alone
    return dataclasses.replace(best, seconds_on_one=seconds)


def _is_faster(plan: ShardedPlan, seconds: float) -> bool:
    return plan.seconds_sharded < SETTINGS.margin * seconds


def _needed(error: _Refused) -> float:
    return error.smallest_limit if isinstance(error, MemoryLimitError) else math.inf
