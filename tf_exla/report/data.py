"""The data of a report, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from tf_exla.errors import PeakPart
from tf_exla.report.graph import GraphNode
from tf_exla.shard.plan import DeviceUse
from tf_exla.split.trace import Step


@dataclass(frozen=True, slots=True)
class LargeTensor:
    """One of the largest tensors of a program. `split`: it no longer exists whole in the plan."""

    name: str
    op: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int
    source: str
    split: bool


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """One result of a loop. `combine`: concat along an axis, add, max, ..."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int
    combine: str


@dataclass(frozen=True, slots=True)
class LoopEntry:
    """One loop over chunks.

    `extra_flops`: flops of nodes that an earlier stage also computes, over all iterations.
    `body_peak`: bytes that one iteration allocates. `depth`: the number of loops around it.
    """

    name: str
    stage: int
    axis: str
    extent: int
    chunk: int
    iterations: int
    parallel: int
    results: tuple[ResultEntry, ...]
    recomputed: tuple[str, ...]
    extra_flops: int
    body_peak: int
    nodes: int
    source: str
    depth: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tensor that was not split along an axis, the op that prevented it, and the reason."""

    tensor: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int
    axis: int
    op: str
    node: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class CostlyOp:
    """Numbers of nodes of one op that take more than 1 % of the original's flops each.

    A node of a loop's body counts once, with the flops of all iterations.
    """

    op: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class RewriteEntry:
    """A rewrite that was applied at `count` nodes, with the flops and bytes moved of these nodes.

    `rewrites`: the name of its family, by which `optimize(..., rewrites=...)` switches it.
    """

    rewrites: str
    name: str
    identity: str
    count: int
    nodes: tuple[str, ...]
    sources: tuple[str, ...]
    flops_before: int
    flops: int
    bytes_before: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """The working set in bytes while one node of the plan runs.

    `alive`: its largest parts: tensors by their names, and temporary memory of the node.
    """

    node: str
    op: str
    bytes: int
    source: str = ""
    alive: tuple[PeakPart, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardingEntry:
    """A program on several devices, which share the iterations of its loops of depth 0.

    `uses`: memory and time of each device. `shards`: parts of each of these loops. `sent`: bytes
    from and to the driver in each call. `seconds_on_one`: estimate for one device, None if that is
    not within the limit. `seconds`: estimate for all devices, including what is sent.
    """

    uses: tuple[DeviceUse, ...]
    shards: int
    sent: int
    seconds_on_one: float | None
    seconds: float


@dataclass(frozen=True)
class ReportData:
    """Memory and work of the plan, compared with the original program.

    All sizes are bytes. peak = resident + working set. `*_before`: the original program in its own
    order, without splitting. `largest`: the largest tensors of the original. `largest_left`: the
    largest tensor that the plan leaves whole.
    """

    function: str
    device: str
    limit: int
    resident: int
    working_set_before: int
    working_set: int
    projected_peak_before: int
    projected_peak: int
    nodes_before: int
    nodes: int
    flops_before: int
    flops: int
    largest: tuple[LargeTensor, ...]
    loops: tuple[LoopEntry, ...]
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    timeline_before: tuple[TimelinePoint, ...]
    timeline: tuple[TimelinePoint, ...]
    rewrite_seconds: float
    rewrites: tuple[RewriteEntry, ...] = ()
    costly: tuple[CostlyOp, ...] = ()
    graph_before: tuple[GraphNode, ...] = ()
    graph: tuple[GraphNode, ...] = ()
    steps: tuple[Step, ...] = ()
    largest_left: LargeTensor | None = None
    sharding: ShardingEntry | None = None
