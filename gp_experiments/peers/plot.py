"""Pictures of the records: time against peak per case, and the curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from gp_experiments.peers.cases import Case
from tf_exla.report.ticks import readable_ticks

COLOURS = {
    "tf_exla": "#d62728", "tf_exla jit": "#e377c2", "tf_exla no jit": "#ff9896",
    "stock": "#7f7f7f", "xla": "#c7a500", "numpy": "#1f77b4", "keops": "#2ca02c",
    "faiss": "#9467bd", "sklearn": "#8c564b", "jax": "#17becf", "torch": "#ff7f0e",
    "gpytorch": "#bcbd22",
}  # fmt: skip
COLUMNS = 3


def plot_cases(path: Path, cases: Sequence[Case], records: Sequence[dict[str, Any]]) -> None:
    """Draw one bar chart per case: median seconds of each contender, with its peak written on."""
    shown = [
        (case, own)
        for case in cases
        if (own := [r for r in records if r["case"]["name"] == case.name and r.get("seconds")])
    ]
    if not shown:
        return
    height = -(-len(shown) // COLUMNS)
    figure = Figure(figsize=(13, 2.9 * height), layout="constrained")
    grid = figure.subplots(height, COLUMNS, squeeze=False).ravel()
    for axes, (case, own) in zip(grid, shown, strict=False):
        _bars(axes, case, own)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    figure.suptitle("Seconds of one call (median), and the memory it takes with its arguments")
    figure.savefig(path, dpi=110)


def _bars(axes: Axes, case: Case, records: Sequence[dict[str, Any]]) -> None:
    ordered = sorted(records, key=lambda one: -median(one["seconds"]))
    names = [one["contender"] for one in ordered]
    seconds = [median(one["seconds"]) for one in ordered]
    bars = axes.barh(names, seconds, color=[COLOURS.get(name, "black") for name in names])
    axes.bar_label(bars, [_label(one) for one in ordered], padding=3, fontsize=7)
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 8)
    readable_ticks(axes.xaxis)
    axes.set_title(f"{case.name}, limit {case.limit}", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("seconds", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _label(record: dict[str, Any]) -> str:
    seconds, peak = median(record["seconds"]), record.get("peak")
    memory = f", {(peak + record['data_bytes']) / 1e6:,.0f} MB" if peak is not None else ""
    return f"{seconds:.3g} s{memory}"


def plot_curves(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Draw the curves of `curves.py`: time against limit, against N, and of the tool by nodes.

    Of curves on which nothing was measured there is no panel, and of none no picture.
    """
    run = [one for one in records if not one.get("failed")]
    drawn = {name: draw for name, draw in _PANELS.items() if any(r["curve"] == name for r in run)}
    if not drawn:
        return
    figure = Figure(figsize=(1 + 4 * len(drawn), 4), layout="constrained")
    panels = figure.subplots(1, len(drawn), squeeze=False)[0]
    for axes, (name, draw) in zip(panels, drawn.items(), strict=True):
        draw(axes, [one for one in run if one["curve"] == name])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def _limits(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    ours = [one for one in records if one["contender"] == "tf_exla"]
    stock = [one for one in records if one["contender"] == "stock"]
    if ours:
        axes.plot(
            [100 * one["share"] for one in ours], [median(one["seconds"]) for one in ours],
            "o-", color=COLOURS["tf_exla"], label="tf_exla",
        )  # fmt: skip
    for one in stock:
        axes.axhline(median(one["seconds"]), color=COLOURS["stock"], label="stock")
    axes.set(xlabel="limit, % of the stock peak", ylabel="seconds of one call", xscale="log")
    axes.set_ylim(bottom=0)
    axes.set_xticks([100 * one["share"] for one in ours])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title("Time against limit: SGPR", fontsize=10)
    axes.legend()


def _sizes(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    memory = axes.twinx()
    for name in ("tf_exla", "stock"):
        own = [one for one in records if one["contender"] == name]
        n = [one["n"] for one in own]
        axes.plot(n, [median(one["seconds"]) for one in own], "o-", color=COLOURS[name], label=name)
        held = [one for one in own if one.get("peak") is not None]
        memory.plot(
            [one["n"] for one in held], [(one["peak"] + one["data_bytes"]) / 1e6 for one in held],
            "s:", color=COLOURS[name], alpha=0.6,
        )  # fmt: skip
    axes.set(xlabel="N", ylabel="seconds of one call (circles)", xscale="log", yscale="log")
    memory.set(ylabel="peak, MB (squares)", yscale="log")
    axes.set_xticks(sorted({one["n"] for one in records}))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelsize=7)
    readable_ticks(axes.yaxis)
    readable_ticks(memory.yaxis)
    axes.set_title("Time and peak against N: SGPR", fontsize=10)
    axes.legend()


def _nodes(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    styles = {"passes": "-", "capture and restore": "--", "tracing, as tf.function's": ":"}
    for kind, colour in (("fits", "#1f77b4"), ("split", "#d62728")):
        own = [one for one in records if one["kind"] == kind]
        for part, style in styles.items():
            axes.plot(
                [one["nodes"] for one in own], [one["parts"][part] for one in own],
                "o" + style, color=colour, label=f"{kind}: {part}", markersize=4,
            )  # fmt: skip
    axes.set(xlabel="nodes of the graph", ylabel="seconds", xscale="log", yscale="log")
    readable_ticks(axes.xaxis)
    readable_ticks(axes.yaxis)
    axes.set_title("The tool's own time", fontsize=10)
    axes.legend(fontsize=7)


_PANELS = {"limit": _limits, "size": _sizes, "nodes": _nodes}
