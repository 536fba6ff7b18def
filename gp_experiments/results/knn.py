"""Nearest neighbours: queries per second."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from gp_experiments.calls import LIMIT, STOCK
from gp_experiments.records import Record
from gp_experiments.results.common import (
    NO_MEMORY,
    Table,
    cell,
    choose,
    distinct,
    ended,
    memory,
    new_figure,
    seconds_of,
)
from gp_experiments.results.settings import Setting, settings
from tf_exla.report.ticks import readable_ticks

ORDER = (STOCK, LIMIT, "keops", "faiss", "sklearn")
TITLES = {STOCK: "stock", LIMIT: "tf_exla", "keops": "KeOps", "faiss": "FAISS",
          "sklearn": "scikit-learn"}  # fmt: skip

STYLES = {STOCK: ("C1", "x"), LIMIT: ("C0", "o"), "keops": ("C2", "^"), "faiss": ("C3", "s"),
          "sklearn": ("C4", "D")}  # fmt: skip


def _rate(record: Record) -> float | None:
    seconds = seconds_of(record)
    return record["result"]["m"] / seconds if seconds else None


def _arms(records: Sequence[Record]) -> list[str]:
    return [arm for arm in ORDER if choose(records, arm=arm)]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return queries per second of each arm, and peaks; a table per setting."""
    return [_table(setting) for setting in _settings(records)]


def _settings(records: Sequence[Record]) -> list[Setting]:
    return settings(records, "vectors", "distance", "arm", "limit")


def _table(setting: Setting) -> Table:
    """Return a row for each set, distance, and pair of limits of stock and of tf_exla."""
    records = setting.records
    arms = _arms(records)
    rows = []
    for vectors in distinct(records, "vectors"):
        for distance in distinct(choose(records, vectors=vectors), "distance"):
            own = choose(records, vectors=vectors, distance=distance)
            for held, limit in product(_limits(own, STOCK), _limits(own, LIMIT)):
                stock = choose(own, arm=STOCK, limit=held)
                limited = choose(own, arm=LIMIT, limit=limit)
                others = [r for r in own if r["config"]["arm"] not in (STOCK, LIMIT)]
                row = [f"{vectors} {distance}", _size(own)]
                for arm in arms:
                    chosen = choose([*stock, *limited, *others], arm=arm)
                    rates = [rate for r in chosen if (rate := _rate(r)) is not None]
                    row.append(f"{max(rates):,.0f}" if rates else ended(chosen))
                row += [
                    held or "", cell([*stock, *limited][:1], "projected_stock", memory),
                    limit or "", cell(limited, "projected", memory),
                    cell(limited, "measured", memory),
                ]  # fmt: skip
                rows.append(row)
    header = ["", "n, d, queries", *(TITLES[arm] for arm in arms)]
    header += ["stock held to", "projected", "tf_exla's limit", "projected", "measured"]
    caption = f"Queries per second, k = {records[0]['config']['k']}, float32{setting.words('k')}"
    return Table(caption, header, rows)


def _limits(records: Sequence[Record], arm: str) -> list[str | None]:
    """Return the limits that an arm ran with; one None where it did not run."""
    return list(distinct(choose(records, arm=arm), "limit")) or [None]


def _size(records: Sequence[Record]) -> str:
    known = next((r["result"] for r in records if "n" in r["result"]), None)
    return f"{known['n']:,}, {known['d']}, {known['m']:,}" if known else ""


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw queries per second, a row for each set and distance, where any were measured."""
    return [
        _figure(setting, folder / f"knn{setting.suffix}.png")
        for setting in _settings(records)
        if any(map(_rate, setting.records))
    ]


def _figure(setting: Setting, path: Path) -> Path:
    records = setting.records
    arms = _arms(records)
    keys = sorted(
        {(r["config"]["vectors"], r["config"]["distance"]) for r in records}, reverse=True
    )
    figure, (axes,) = new_figure(1, height=1.3 + 0.32 * len(keys))
    for arm in arms:
        colour, marker = STYLES[arm]
        points = []
        for place, (vectors, distance) in enumerate(keys):
            for record in choose(records, vectors=vectors, distance=distance, arm=arm):
                rate = _rate(record)
                if rate is not None:
                    points.append((rate, place))
                elif record["status"] in ("oom", "killed"):
                    axes.text(1.01, place, f"{TITLES[arm]} {NO_MEMORY}", va="center", fontsize=8,
                              color=colour, transform=axes.get_yaxis_transform())  # fmt: skip
        xs, ys = [x for x, _ in points], [y for _, y in points]
        axes.plot(xs, ys, marker, color=colour, label=TITLES[arm])
    axes.set_xscale("log")
    readable_ticks(axes.xaxis)
    axes.set_yticks(range(len(keys)), [f"{vectors}, {distance}" for vectors, distance in keys])
    axes.set_ylim(-0.6, len(keys) - 0.4)
    axes.set_xlabel("queries per second")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=len(arms), fontsize=8)
    if setting.differs:
        figure.suptitle(setting.words().removeprefix(", "), fontsize=10)
    figure.savefig(path, dpi=150)
    return path
