"""Kernel matrix times vector: peak and time against N."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gp_experiments.calls import LIMIT
from gp_experiments.records import Record
from gp_experiments.results import curves
from gp_experiments.results.common import (
    Table,
    cell,
    choose,
    distinct,
    memory,
    seconds_cell,
    short_seconds,
)
from tf_exla.byte_size import parse_bytes

CAPTION = "SquaredExponential, D = 1, float64"


def _whole(records: Sequence[Record]) -> list[Record]:
    return [r for r in records if r["config"]["rows"] == r["config"]["size"]]


def _slices(records: Sequence[Record]) -> list[Record]:
    return [r for r in records if r["config"]["rows"] < r["config"]["size"]]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row for each N, and one of slices, of which some rows were computed."""
    made = []
    if whole := _whole(records):
        made.append(curves.table(f"**K v**, {CAPTION}", "N", "size", whole))
    if slices := _slices(records):
        made.append(_slice_table(slices))
    return made


def _slice_table(records: Sequence[Record]) -> Table:
    """Return a row per N, rows and limit: all rows as planned, and a slice as it ran."""
    rows = []
    for size in distinct(records, "size"):
        own = choose(records, size=size, arm=LIMIT)
        for record in sorted(own, key=lambda r: parse_bytes(r["config"]["limit"])):
            one, plan = [record], [{**record, "result": record["result"].get("all_rows", {})}]
            rows.append([
                f"{size:,}", record["config"]["limit"], cell(plan, "projected_stock", memory),
                cell(plan, "projected", memory), f"{record['config']['rows']:,}",
                cell(one, "projected", memory), cell(one, "measured", memory), seconds_cell(one),
                cell(one, "row_seconds", short_seconds),
                cell(one, "extrapolated_seconds", short_seconds),
            ])  # fmt: skip
    header = [
        "N", "limit", "all rows: stock projected", "projected", "rows of the slice",
        "slice: projected", "measured", "time", "time of a row", "all rows, extrapolated",
    ]  # fmt: skip
    caption = (
        f"**Slices of K v**, {CAPTION}: all rows were planned, and some computed. The time of all "
        "rows is extrapolated, rows times the time of a row; it was not measured"
    )
    return Table(caption, header, rows)


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw peak and time against N; hollow: projected and extrapolated, from slices."""
    whole = _whole(records)
    if len(distinct(whole, "size")) < 2:
        return []
    beyond = [
        {
            **r,
            "result": {
                "peak": r["result"].get("all_rows", {}).get("projected"),
                "projected_stock": r["result"].get("all_rows", {}).get("projected_stock"),
                "seconds": r["result"].get("extrapolated_seconds"),
            },
        }
        for r in _slices(records)
    ]
    path = folder / "matvec.png"
    return [curves.figure("K v, float64", "N", "size", whole, path, beyond=beyond)]
