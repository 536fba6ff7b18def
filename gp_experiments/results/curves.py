"""Peak and time of one program against its size: a curve for stock, and one per limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from gp_experiments.records import Record
from gp_experiments.results.common import (
    LIMIT,
    NO_MEMORY,
    STOCK,
    Table,
    cell,
    choose,
    distinct,
    memory,
    new_figure,
    seconds_cell,
    seconds_of,
)
from tf_exla.byte_size import parse_bytes


def table(caption: str, name: str, key: str, records: Sequence[Record]) -> Table:
    """Return a row per size: stock, then each limit with its peak and time."""
    limits = _limits(records)
    held = ", ".join(sorted({r["config"]["limit"] for r in choose(records, arm=STOCK)}))
    header = [name, "stock projected", f"measured (held to {held})", "time"]
    for limit in limits:
        header += [f"limit {limit}: projected", "measured", "time"]
    rows = []
    for size in distinct(records, key):
        own = choose(records, **{key: size})
        stock = choose(own, arm=STOCK)
        row = [f"{size:,}", cell(own[:1], "projected_stock", memory)]
        row += [cell(stock, "measured", memory), seconds_cell(stock)]
        for limit in limits:
            chosen = choose(own, arm=LIMIT, limit=limit)
            row += [cell(chosen, "projected", memory), cell(chosen, "measured", memory)]
            row += [seconds_cell(chosen)]
        rows.append(row)
    return Table(caption, header, rows)


def figure(title: str, label: str, key: str, records: Sequence[Record], path: Path) -> Path:
    """Draw measured peak and time against the size, both axes logarithmic."""
    drawn, (peaks, times) = new_figure(2)
    arms = [(STOCK, limit, "x--", "C1") for limit in _limits(records, STOCK)]
    arms += [
        (LIMIT, limit, "o-", colour)
        for limit, colour in zip(
            _limits(records), cycle(("C0", "C2", "C4", "C5", "C6", "C9")), strict=False
        )
    ]
    for arm, limit, style, colour in arms:
        own = sorted(choose(records, arm=arm, limit=limit), key=lambda r: r["config"][key])
        name = f"stock, held to {limit}" if arm == STOCK else f"tf_exla, limit {limit}"
        points = [(r["config"][key], r["result"].get("measured")) for r in own]
        drawable = [(x, y / 1e6) for x, y in points if y is not None]
        peaks.plot(
            *zip(*drawable, strict=True) if drawable else ((), ()), style, color=colour, label=name
        )
        peaks.axhline(parse_bytes(limit) / 1e6, color=colour, linewidth=0.8, linestyle=":")
        spent = [(r["config"][key], s) for r in own if (s := seconds_of(r)) is not None]
        times.plot(
            *zip(*spent, strict=True) if spent else ((), ()), style, color=colour, label=name
        )
        for r in own:
            if r["status"] in ("oom", "killed"):
                peaks.text(r["config"][key], parse_bytes(limit) / 1e6, NO_MEMORY, color=colour,
                           ha="center", va="center", fontsize=11)  # fmt: skip
    sizes = distinct(records, key)
    projected = [
        choose(records, **{key: size})[0]["result"].get("projected_stock") for size in sizes
    ]
    known = [(x, y / 1e6) for x, y in zip(sizes, projected, strict=True) if y is not None]
    if known:
        peaks.plot(*zip(*known, strict=True), color="0.75", linewidth=1, zorder=0,
                   label="stock, projected")  # fmt: skip
    for axes, what in ((peaks, "measured peak [MB]"), (times, "time of a call [s]")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel(label)
        axes.set_ylabel(what)
        axes.grid(alpha=0.3)
    peaks.legend(fontsize=7)
    drawn.suptitle(title, fontsize=11)
    drawn.savefig(path, dpi=150)
    return path


def _limits(records: Sequence[Record], arm: str = LIMIT) -> list[str]:
    return sorted({r["config"]["limit"] for r in choose(records, arm=arm)}, key=parse_bytes)
