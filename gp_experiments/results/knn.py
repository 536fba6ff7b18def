"""Nearest neighbours: queries per second."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Return queries per second of each arm, and peaks."""
    arms = _arms(records)
    rows = []
    for vectors in distinct(records, "vectors"):
        for distance in distinct(choose(records, vectors=vectors), "distance"):
            own = choose(records, vectors=vectors, distance=distance)
            row = [f"{vectors} {distance}", _size(own)]
            for arm in arms:
                rates = [rate for r in choose(own, arm=arm) if (rate := _rate(r)) is not None]
                row.append(f"{max(rates):,.0f}" if rates else ended(choose(own, arm=arm)))
            row += [
                ", ".join(distinct(choose(own, arm=STOCK), "limit")),
                cell(own[:1], "projected_stock", memory),
                ", ".join(distinct(choose(own, arm=LIMIT), "limit")),
                cell(choose(own, arm=LIMIT), "projected", memory),
                cell(choose(own, arm=LIMIT), "measured", memory),
            ]
            rows.append(row)
    header = ["", "n, d, queries", *(TITLES[arm] for arm in arms)]
    header += ["stock held to", "projected", "tf_exla's limit", "projected", "measured"]
    caption = f"Queries per second, k = {records[0]['config']['k']}, float32"
    return [Table(caption, header, rows)]


def _size(records: Sequence[Record]) -> str:
    known = next((r["result"] for r in records if "n" in r["result"]), None)
    return f"{known['n']:,}, {known['d']}, {known['m']:,}" if known else ""


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw queries per second, a row for each set and distance."""
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
    axes.set_yticks(range(len(keys)), [f"{vectors}, {distance}" for vectors, distance in keys])
    axes.set_ylim(-0.6, len(keys) - 0.4)
    axes.set_xlabel("queries per second")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=len(arms), fontsize=8)
    path = folder / "knn.png"
    figure.savefig(path, dpi=150)
    return [path]
