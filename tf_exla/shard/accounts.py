"""The bytes that exist on the driver and on a device while the parts of a program run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_exla.ir.graph import Graph, Loop, Tensor
from tf_exla.model.projection import resident_bytes
from tf_exla.shard.loops import Fleet, kept_rows
from tf_exla.shard.parts import Part, ShardedPart
from tf_exla.shard.plan import DeviceUse


class Accounts:
    """Byte counts of the parts, in the order in which they run.

    The driver holds the program's inputs and constants, results that later parts read and, during
    the shards of a loop, operands on their way to other devices. A device holds its shards' parts
    of the program's inputs and, during a shard, its other operands. If the driver is one of the
    devices, it holds both.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[Part],
        fleet: Fleet,
        kept: Callable[[Loop], int],
        sending: Callable[[Loop], int],
    ) -> None:
        """Begin with no parts counted.

        `kept`, `sending`: functions of a loop that return bytes. `kept`: of the parts of the
        program's inputs, and of results, that a device keeps for its shards. `sending`: of operands
        that leave the driver at the same time.
        """
        self.graph = graph
        self.parts = parts
        self.fleet = fleet
        self.held = resident_bytes(graph) - sum(tensor.nbytes for tensor in fleet.apart)
        self.kept = sum(kept(node) for node in graph.nodes if isinstance(node, Loop))
        self.sending = sending
        self.driver_peak = self.device_peak = 0

    def on_driver(self, at: int) -> int:
        """Return the bytes that exist on the driver before part `at` runs there."""
        own = 0 if self.fleet.remote else self.kept
        return self.held + own + self._handed(at) + self._sending(at)

    def on_device(self, at: int, sent: int) -> int:
        """Return the bytes that exist on a device before it runs a shard of part `at`.

        `sent`: the bytes of operands that are sent for the shard.
        """
        held = 0 if self.fleet.remote else self.held + self._handed(at) + self._sending(at)
        return self.kept + sent + held

    def local(self, at: int, working_set: int) -> None:
        """Record that part `at` allocates `working_set` bytes on the driver."""
        self.driver_peak = max(self.driver_peak, self.on_driver(at) + working_set)

    def shard(self, at: int, sent: int, working_set: int) -> None:
        """Record that a shard of part `at` allocates `working_set` bytes on its device."""
        self.device_peak = max(self.device_peak, self.kept + sent + working_set)
        if not self.fleet.remote:
            peak = self.on_device(at, sent) + working_set
            self.driver_peak = max(self.driver_peak, peak)

    def uses(self, local: float, computing: float) -> tuple[DeviceUse, ...]:
        """Return the use of each device, the driver first.

        `local`, `computing`: seconds of a call on the driver, and in the shards of a device.
        """
        fleet = self.fleet
        own = 0 if fleet.remote else self.kept
        resident = self.held + own
        seconds = local if fleet.remote else local + computing
        driver = DeviceUse("driver", resident, max(self.driver_peak - resident, 0), seconds)
        first = 0 if fleet.remote else 1
        device = (self.kept, self.device_peak - self.kept, computing)
        others = (DeviceUse(f"device {k}", *device) for k in range(first, fleet.devices))
        return (driver, *others)

    def _sending(self, at: int) -> int:
        part = self.parts[at]
        return self.sending(part.loop) if isinstance(part, ShardedPart) else 0

    def _handed(self, at: int) -> int:
        """Return the bytes of results of earlier parts that part `at` or a later part reads."""
        made: dict[Tensor, None] = {}
        for part in self.parts[:at]:
            made.update(dict.fromkeys(part.outputs))
        read = {tensor for part in self.parts[at:] for tensor in part.inputs}
        read.update(self.graph.outputs)
        read -= kept_rows(self.graph, self.fleet)
        return sum(tensor.nbytes for tensor in made if tensor in read)
