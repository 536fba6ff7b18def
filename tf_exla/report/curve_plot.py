"""A curve as a picture: estimated time over the limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tf_exla.byte_size import format_bytes
from tf_exla.report.curve_data import CurveData
from tf_exla.report.plot import unit_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_curve(curve: CurveData, path: str | Path | None = None) -> Figure:
    """Draw estimated seconds over the limit, both with logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    factor, unit = unit_of(max(curve.stock_peak, *(point.limit for point in curve.points)))
    limits = [point.limit / factor for point in curve.points]
    seconds = [point.seconds for point in curve.points]
    axes.plot(limits, seconds, "o-", color="C0", label="optimized")
    axes.plot(
        [curve.stock_peak / factor], [curve.stock_seconds], "s", color="0.55", label="original"
    )
    knee = curve.knee
    axes.axvline(
        knee.limit / factor, color="C3", linestyle="--", label=f"knee, {format_bytes(knee.limit)}"
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"limit [{unit}]")
    axes.set_ylabel("estimated time [s]")
    axes.set_title(f"{curve.function}: what memory costs")
    axes.legend(loc="best")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
