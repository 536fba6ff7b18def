"""The data of a curve of limit against time, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

NEAR = 1.05
"""Times within this factor of the fastest count as equally fast. Estimates of two split plans of
one program differ by more (`SearchSettings.margin`), so a smaller factor would have no meaning."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best plan within a limit: its peak in bytes, estimated seconds, loops over chunks.

    `loops` includes nested loops.
    """

    limit: int
    projected_peak: int
    seconds: float
    loops: int


@dataclass(frozen=True)
class CurveData:
    """Points from the smallest limit that works to the original's peak; times never increase.

    `stock_peak`: peak of the original program in bytes. `stock_seconds`: its estimated time.
    Seconds come from the cost model, so their ratios are more meaningful than their values.
    """

    function: str
    device: str
    stock_peak: int
    stock_seconds: float
    points: tuple[CurvePoint, ...]

    @property
    def knee(self) -> CurvePoint:
        """The smallest limit whose time is within 5 % of the fastest."""
        fastest = min(point.seconds for point in self.points)
        return next(point for point in self.points if point.seconds <= NEAR * fastest)
