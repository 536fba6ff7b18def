"""Conjugate gradients: one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gp_experiments.records import Record
from gp_experiments.results.common import (
    Table,
    cell,
    choose,
    distinct,
    memory,
    seconds_cell,
)
from gp_experiments.results.settings import Setting, settings


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table per setting, with a row for each data set and arm."""
    return [_table(setting) for setting in settings(records, "dataset", "arm", "limit")]


def _table(setting: Setting) -> Table:
    records = setting.records
    rows = []
    for dataset in distinct(records, "dataset"):
        for record in choose(records, dataset=dataset):
            config, result = record["config"], record["result"]
            own = [record]
            rows.append([
                dataset, f"{result['num_train']:,}" if "num_train" in result else "",
                f"{config['arm']} {config['limit']}",
                cell(own, "projected_stock", memory), cell(own, "projected", memory),
                cell(own, "measured", memory), cell(own, "iterations", "{:.0f}".format),
                cell(own, "residual", "{:.1e}".format), cell(own, "rmse"), seconds_cell(own),
            ])  # fmt: skip
    header = [
        "", "N", "arm", "stock projected", "projected", "measured", "iterations", "residual",
        "test RMSE", "time",
    ]  # fmt: skip
    config = records[0]["config"]
    caption = (
        f"Matern-3/2, lengthscale {config['lengthscale']}, noise {config['noise']}, a "
        f"preconditioner of rank {config['rank']}, to a relative residual of {config['tolerance']}"
        f"{setting.words('lengthscale', 'noise', 'rank', 'tolerance')}"
    )
    return Table(caption, header, rows)


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Return none: the table says it."""
    return []
