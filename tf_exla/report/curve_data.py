"""What a curve of limit against time tells: plain values."""

from __future__ import annotations

from dataclasses import dataclass

NEAR = 1.05
"""Of the fastest time: what counts as as fast. Estimates of two split plans of one program differ
by more (`SearchSettings.margin`), so less would tell nothing apart."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best plan within a limit: bytes that it needs, estimated seconds, loops over chunks.

    `loops`: with those inside of others.
    """

    limit: int
    projected_peak: int
    seconds: float
    loops: int


@dataclass(frozen=True)
class CurveData:
    """Points from the smallest limit that works to what stock needs, none slower than those before.

    `stock_peak`: bytes that the original program needs, `stock_seconds`: its estimated time.
    Seconds are those of the cost model: their ratios tell more than the numbers.
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
