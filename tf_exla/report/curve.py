"""Limit against estimated time: what less memory costs one program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tf_exla.byte_size import format_bytes
from tf_exla.report.curve_data import CurveData


@dataclass(frozen=True)
class Curve(CurveData):
    """A curve that prints as a table and plots itself; its fields are those of `CurveData`."""

    def plot(self, path: str | Path | None = None) -> object:
        """Plot estimated time over the limit, with the knee marked, and return the figure.

        Needs matplotlib. With `path`, the figure is saved there.
        """
        from tf_exla.report.plot import plot_curve  # matplotlib

        return plot_curve(self, path)

    def __str__(self) -> str:
        knee = self.knee
        lines = [
            f"{self.function} on {self.device}: stock needs {format_bytes(self.stock_peak)}, "
            f"{self.stock_seconds:.3g} s estimated",
            f"  {'limit':>10} {'peak':>10} {'seconds':>10} {'to stock':>9} {'loops':>6}",
        ]
        for point in self.points:
            ratio = f"{point.seconds / self.stock_seconds:.2f}" if self.stock_seconds else ""
            lines.append(
                f"  {format_bytes(point.limit):>10} {format_bytes(point.projected_peak):>10} "
                f"{point.seconds:>10.3g} {ratio:>9} {point.loops:>6}"
                f"{'  knee' if point is knee else ''}"
            )
        return "\n".join(lines)
