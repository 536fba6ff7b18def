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
from gp_experiments.results.settings import settings
from tf_exla.byte_size import parse_bytes

CAPTION = "SquaredExponential, D = 1, float64"


def _whole(records: Sequence[Record]) -> list[Record]:
    return [r for r in records if r["config"]["rows"] == r["config"]["size"]]


def _slices(records: Sequence[Record]) -> list[Record]:
    return [r for r in records if r["config"]["rows"] < r["config"]["size"]]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row for each N, and one of slices, of which some rows were computed."""
    made = []
    for setting in settings(records, "size", "rows", "arm", "limit"):
        caption = CAPTION + setting.words()
        if whole := _whole(setting.records):
            made.append(curves.table(f"**K v**, {caption}", "N", "size", whole))
        if slices := _slices(setting.records):
            made.append(_slice_table(slices, caption))
    return made


def _slice_table(records: Sequence[Record], sizes: str) -> Table:
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
        f"**Slices of K v**, {sizes}: all rows were planned, and some computed. The time of all "
        "rows is extrapolated, rows times the time of a row; it was not measured"
    )
    return Table(caption, header, rows)


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw peak and time against N; hollow: projected and extrapolated, from slices."""
    paths = []
    for setting in settings(records, "size", "rows", "arm", "limit"):
        whole = _whole(setting.records)
        if len(distinct(whole, "size")) < 2:
            continue
        beyond = [_extrapolated(record) for record in _slices(setting.records)]
        path = folder / f"matvec{setting.suffix}.png"
        title = f"K v, float64{setting.words()}"
        paths += curves.figure(title, "N", "size", whole, path, beyond=beyond)
    return paths


def _extrapolated(record: Record) -> Record:
    """Return a record of a slice with the peak [bytes] and seconds of all rows as its result."""
    planned = record["result"].get("all_rows", {})
    result = {
        "peak": planned.get("projected"),
        "projected_stock": planned.get("projected_stock"),
        "seconds": record["result"].get("extrapolated_seconds"),
    }
    return {**record, "result": result}
