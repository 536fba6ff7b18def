"""Kernel matrix times vector: peak and time against N."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gp_experiments.records import Record
from gp_experiments.results import curves
from gp_experiments.results.common import Table


def _groups(records: Sequence[Record]) -> list[tuple[str, str, list[Record]]]:
    """Return whole products, and those of which some rows were computed, with a name each."""
    whole = [r for r in records if r["config"]["rows"] == r["config"]["size"]]
    made = [("matvec", "K v", whole)] if whole else []
    for rows in sorted({r["config"]["rows"] for r in records}):
        part = [r for r in records if r["config"]["rows"] == rows != r["config"]["size"]]
        if part:
            made.append((f"matvec-{rows}-rows", f"{rows:,} rows of K v", part))
    return made


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row for each N."""
    return [
        curves.table(f"**{name}**, SquaredExponential, D = 1, float64", "N", "size", own)
        for _, name, own in _groups(records)
    ]


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw peak and time against N."""
    return [
        curves.figure(f"{name}, float64", "N", "size", own, folder / f"{file}.png")
        for file, name, own in _groups(records)
        if len({r["config"]["size"] for r in own}) > 1
    ]
