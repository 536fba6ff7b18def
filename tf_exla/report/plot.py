"""Pictures: memory over the plan of a report; estimated time over the limit of a curve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tf_exla.byte_size import format_bytes
from tf_exla.report.curve_data import CurveData
from tf_exla.report.data import ReportData, TimelinePoint
from tf_exla.report.ticks import readable_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "bytes"))


def unit_of(largest: int) -> tuple[int, str]:
    """Return the unit of an axis that ends at `largest` bytes: its bytes and its name."""
    return next((factor, unit) for factor, unit in _UNITS if largest >= factor or factor == 1)


def plot_report(report: ReportData, path: str | Path | None = None) -> Figure:
    """Draw memory (resident + working set) over the plan, original against optimized."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    largest = max(report.projected_peak_before, report.projected_peak, report.limit)
    factor, unit = unit_of(largest)
    for name, points, colour in (
        ("original", report.timeline_before, "0.55"),
        ("optimized", report.timeline, "C0"),
    ):
        place, height = _outline(points)
        axes.fill_between(
            place, (height + report.resident) / factor, step="post", color=colour, alpha=0.25
        )
        axes.plot(
            place, (height + report.resident) / factor, drawstyle="steps-post", color=colour,
            label=name,
        )  # fmt: skip
    axes.axhline(report.limit / factor, color="C3", linestyle="--", label="limit")
    axes.set_yscale("log")
    readable_ticks(axes.yaxis)
    axes.set_xlim(0, 1)
    axes.set_xlabel("position in the plan")
    axes.set_ylabel(f"memory [{unit}]")
    axes.set_title(f"{report.function}: projected memory over the plan")
    axes.legend(loc="best")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _outline(
    points: Sequence[TimelinePoint],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return relative positions and bytes; an empty plan is a flat line."""
    heights = np.array([point.bytes for point in points] or [0], dtype=float)
    heights = np.append(heights, heights[-1])
    return np.linspace(0.0, 1.0, len(heights)), heights


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
