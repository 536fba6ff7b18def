"""Attention: peak and time against the length of the sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gp_experiments.records import Record
from gp_experiments.results import curves
from gp_experiments.results.common import Table, choose, distinct
from gp_experiments.results.settings import Setting, settings

NAMES = {"forward": "forward", "train": "train step"}


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table each of the forward pass and the train step."""
    return [
        curves.table(f"**{NAMES[mode]}**, {_sizes(own)}", "length", "length", own.records)
        for mode, own in _settings(records)
    ]


def _settings(records: Sequence[Record]) -> list[tuple[str, Setting]]:
    return [
        (mode, setting)
        for mode in distinct(records, "mode")
        for setting in settings(choose(records, mode=mode), "length", "arm", "limit")
    ]


def _sizes(setting: Setting) -> str:
    config = setting.records[0]["config"]
    return (
        f"{config['layers']} layers, d_model {config['d_model']}, {config['heads']} heads, "
        f"dff {config['dff']}, batch {config['batch']}, float32"
        f"{setting.words('layers', 'd_model', 'heads', 'dff', 'batch')}"
    )


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw peak and time against the length, where anything was measured."""
    paths = []
    for mode, own in _settings(records):
        title = f"attention, {NAMES[mode]}: {_sizes(own)}"
        path = folder / f"attention-{mode}{own.suffix}.png"
        paths += curves.figure(title, "length of the sequences", "length", own.records, path)
    return paths
