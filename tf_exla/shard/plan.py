"""The elements of a plan for several devices."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_exla.ir.graph import Graph, Loop, SplitAxis, Tensor
from tf_exla.pipeline.plan import Plan
from tf_exla.shard.link import Link
from tf_exla.shard.loops import Fleet


@dataclass(frozen=True, eq=False)
class PlannedLocal:
    """A part on the driver. `inputs`, `outputs`: tensors of the program. `graph`: its plan."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    graph: Graph


@dataclass(frozen=True, eq=False)
class PlannedLoop:
    """A loop in shards; its outputs are combined as `loop.results` says.

    `inputs`: tensors of the program that shards read. `slots`: for each, the axis along which a
    shard reads only its part; None: whole. `shards`: the indices of each shard. `graphs`: the graph
    that each shard runs; several may be the same object. `offsets`: what is added to the positions
    along the axis that each shard returns. `seconds`: an estimate for one shard. `kept`: results
    whose rows stay on the devices.
    """

    loop: Loop
    inputs: tuple[Tensor, ...]
    slots: tuple[SplitAxis | None, ...]
    shards: tuple[range, ...]
    graphs: tuple[Graph, ...]
    offsets: tuple[int, ...]
    seconds: float
    kept: frozenset[Tensor] = frozenset()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.loop.outputs


Planned = PlannedLocal | PlannedLoop


@dataclass(frozen=True)
class DeviceUse:
    """Memory and time of one device in a call, in bytes and estimated seconds.

    `resident`: arguments and captured tensors, or its parts of them, that stay between calls.
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
    """A plan for several devices; its peak as a `Plan` is that of the device that needs the most.

    `sent`: bytes sent from and to the driver in each call. `seconds_on_one`, `seconds_sharded`:
    estimates for the plan for one device, and for all devices, sending included; the first is None
    if no plan for one device is within the limit.
    """

    parts: tuple[Planned, ...] = ()
    fleet: Fleet = field(default_factory=lambda: Fleet(1, 1, Link(0, 0)))
    uses: tuple[DeviceUse, ...] = ()
    sent: int = 0
    seconds_on_one: float | None = None
    seconds_sharded: float = 0.0
