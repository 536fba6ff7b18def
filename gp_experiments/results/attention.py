"""Attention: peak and time against the length of the sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gp_experiments.records import Record
from gp_experiments.results import curves
from gp_experiments.results.common import Table, choose, distinct

NAMES = {"forward": "forward", "train": "train step"}


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table each of the forward pass and the train step."""
    made = []
    for mode in distinct(records, "mode"):
        own = choose(records, mode=mode)
        made.append(curves.table(f"**{NAMES[mode]}**, {_sizes(own)}", "length", "length", own))
    return made


def _sizes(records: Sequence[Record]) -> str:
    config = records[0]["config"]
    return (
        f"{config['layers']} layers, d_model {config['d_model']}, {config['heads']} heads, "
        f"dff {config['dff']}, batch {config['batch']}, float32"
    )


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw peak and time against the length."""
    paths = []
    for mode in distinct(records, "mode"):
        own = choose(records, mode=mode)
        title = f"attention, {NAMES[mode]}: {_sizes(own)}"
        path = folder / f"attention-{mode}.png"
        paths.append(curves.figure(title, "length of the sequences", "length", own, path))
    return paths
