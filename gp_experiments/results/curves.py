"""Peak and time of one program against its size: a curve for stock, and one per limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from gp_experiments.arms import OUT_OF_MEMORY
from gp_experiments.calls import LIMIT, STOCK
from gp_experiments.records import Record
from gp_experiments.results.common import (
    NO_MEMORY,
    Table,
    cell,
    choose,
    distinct,
    memory,
    new_figure,
    seconds_cell,
    seconds_of,
    size_axis,
)
from tf_exla.byte_size import parse_bytes
from tf_exla.report.ticks import readable_ticks


def table(caption: str, name: str, key: str, records: Sequence[Record]) -> Table:
    """Return a row per size: stock, as it was held, then each limit with its peak and time."""
    held, limits = _limits(records, STOCK), _limits(records)
    header = [name, "stock projected"]
    for memory_given in held:
        header += [f"measured (held to {memory_given})", "time"]
    for limit in limits:
        header += [f"limit {limit}: projected", "measured", "time"]
    rows = []
    for size in distinct(records, key):
        own = choose(records, **{key: size})
        row = [f"{size:,}", cell(own[:1], "projected_stock", memory)]
        for memory_given in held:
            stock = choose(own, arm=STOCK, limit=memory_given)
            row += [cell(stock, "measured", memory), seconds_cell(stock)]
        for limit in limits:
            chosen = choose(own, arm=LIMIT, limit=limit)
            row += [cell(chosen, "projected", memory), cell(chosen, "measured", memory)]
            row += [seconds_cell(chosen)]
        rows.append(row)
    return Table(caption, header, rows)


def figure(
    title: str,
    label: str,
    key: str,
    records: Sequence[Record],
    path: Path,
    *,
    beyond: Sequence[Record] = (),
) -> list[Path]:
    """Draw measured peak and time against the size, both axes logarithmic; return the picture.

    Where nothing was measured there is none. `beyond`: records of sizes that did not run, with a
    projected `peak` [bytes] and extrapolated `seconds`: they are hollow.
    """
    if not any(r["result"].get("measured") or seconds_of(r) for r in records):
        return []
    drawn, (peaks, times) = new_figure(2)
    everything = [*records, *beyond]
    arms = [(STOCK, limit, "x--", "C1") for limit in _limits(records, STOCK)]
    arms += [
        (LIMIT, limit, "o-", colour)
        for limit, colour in zip(
            _limits(everything), cycle(("C0", "C2", "C4", "C5", "C6", "C9")), strict=False
        )
    ]
    for arm, limit, style, colour in arms:
        own = sorted(choose(records, arm=arm, limit=limit), key=lambda r: r["config"][key])
        name = f"stock, held to {limit}" if arm == STOCK else f"tf_exla, limit {limit}"
        measured = [(r["config"][key], _megabytes(r["result"].get("measured"))) for r in own]
        _curve(peaks, measured, style, colour, name)
        peaks.axhline(parse_bytes(limit) / 1e6, color=colour, linewidth=0.8, linestyle=":")
        _curve(times, [(r["config"][key], seconds_of(r)) for r in own], style, colour, name)
        for r in choose(beyond, arm=arm, limit=limit) if arm == LIMIT else ():
            size, result = r["config"][key], r["result"]
            _curve(peaks, [(size, _megabytes(result["peak"]))], "o", colour, "", hollow=True)
            _curve(times, [(size, result["seconds"])], "o", colour, "", hollow=True)
        for r in own:
            if r["status"] in OUT_OF_MEMORY:
                peaks.text(r["config"][key], parse_bytes(limit) / 1e6, NO_MEMORY, color=colour,
                           ha="center", va="center", fontsize=11)  # fmt: skip
    sizes = distinct(everything, key)
    projected = {
        r["config"][key]: value / 1e6
        for r in everything
        if (value := r["result"].get("projected_stock")) is not None
    }
    if projected:
        peaks.plot(*zip(*sorted(projected.items()), strict=True), color="0.75", linewidth=1,
                   zorder=0, label="stock, projected")  # fmt: skip
    for axes, what in ((peaks, "measured peak [MB]"), (times, "time of a call [s]")):
        axes.set_yscale("log")
        readable_ticks(axes.yaxis)
        axes.set_ylabel(what)
        size_axis(axes, sizes, label)
    if not any(map(seconds_of, records)):
        times.text(0.5, 0.5, "no run was timed", ha="center", transform=times.transAxes)
    if any(r["status"] in OUT_OF_MEMORY for r in records):
        peaks.plot([], [], color="0.4", linestyle="", marker=f"${NO_MEMORY}$",
                   label="out of memory")  # fmt: skip
    if beyond:
        _curve(peaks, [], "o", "0.4", "not run: projected", hollow=True)
        _curve(times, [], "o", "0.4", "not run: extrapolated", hollow=True)
        times.legend(fontsize=7)
    peaks.legend(fontsize=7)
    drawn.suptitle(title, fontsize=11)
    drawn.savefig(path, dpi=150)
    return [path]


def _curve(
    axes: Any,
    points: Sequence[tuple[float, float | None]],
    style: str,
    colour: str,
    name: str,
    *,
    hollow: bool = False,
) -> None:
    known = [(x, y) for x, y in points if y is not None]
    face = {"markerfacecolor": "none"} if hollow else {}
    axes.plot(*zip(*known, strict=True) if known else ((), ()), style, color=colour,
              label=name or None, **face)  # fmt: skip


def _megabytes(value: float | None) -> float | None:
    return None if value is None else value / 1e6


def _limits(records: Sequence[Record], arm: str = LIMIT) -> list[str]:
    return sorted({r["config"]["limit"] for r in choose(records, arm=arm)}, key=parse_bytes)
