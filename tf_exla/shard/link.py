"""The cost of sending tensors between the driver and a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A connection; `latency`: seconds of one call with its answer, `byte`: seconds per byte."""

    latency: float
    byte: float

    def seconds(self, nbytes: int, messages: int = 1) -> float:
        """Return the seconds to send `nbytes` in `messages` messages."""
        return messages * self.latency + nbytes * self.byte


LOCAL = Link(latency=1e-4, byte=1 / 5e9)
"""Devices of one process: a copy in memory. Measured between logical CPU devices; half the
bandwidth of PCIe 4.0 to a GPU."""
GRPC = Link(latency=1.3e-3, byte=1 / 0.4e9)
"""TensorFlow's own protocol between processes: 1.3 ms a call and 0.3 to 0.6 GB/s, measured between
two processes of one machine."""
