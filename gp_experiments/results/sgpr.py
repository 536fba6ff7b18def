"""SGPR: scores and cost against the number of inducing points, and scores during training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gp_experiments.calls import LIMIT, STOCK
from gp_experiments.records import Record
from gp_experiments.results.common import (
    PAPER,
    Table,
    cell,
    choose,
    distinct,
    memory,
    new_figure,
    short_seconds,
    size_axis,
)
from gp_experiments.results.settings import Setting, settings

# Table 2 of the paper: data set, M -> test RMSE, NLPD.
PAPER_SCORES = {
    "3droad": {1000: (0.285, -0.173), 10_000: (0.170, -0.322)},
    "houseelectric": {1000: (0.048, -1.602), 4000: (0.043, -1.717)},
}
SCORES = (("rmse", "test RMSE"), ("nlpd", "test NLPD [nats per point]"))


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table per data set and setting."""
    made = []
    for dataset, setting in _settings(records):
        own = setting.records
        paper = PAPER_SCORES.get(dataset, {})
        rows = []
        for num in distinct(own, "num_inducing"):
            stock = choose(own, num_inducing=num, arm=STOCK)
            limit = choose(own, num_inducing=num, arm=LIMIT)
            row = [
                f"{num:,}",
                *(cell(stock, key) for key in ("rmse", "nlpd")),
                cell(stock, "evaluation_seconds", short_seconds),
                *(cell(limit, key) for key in ("rmse", "nlpd")),
                cell(limit, "evaluation_seconds", short_seconds),
                cell([*limit, *stock][:1], "projected_stock", memory),
                cell(limit[:1], "projected", memory),
                cell(limit[:1], "measured", memory),
            ]
            if paper:
                row += [str(value) for value in paper.get(num, ("", ""))]
            rows.append(row)
        header = [
            "M", "stock RMSE", "NLPD", "evaluation", "limit RMSE", "NLPD", "evaluation",
            "stock projected", "projected", "measured",
        ]  # fmt: skip
        made.append(
            Table(_caption(dataset, setting), header + ["paper RMSE", "NLPD"] * bool(paper), rows)
        )
    return made


def _settings(records: Sequence[Record]) -> list[tuple[str, Setting]]:
    """Return each data set with each of its settings; a mean is over seeds alone."""
    return [
        (dataset, setting)
        for dataset in distinct(records, "dataset")
        for setting in settings(choose(records, dataset=dataset), "num_inducing", "arm", "seed")
    ]


def _caption(dataset: str, setting: Setting) -> str:
    records = setting.records
    first = records[0]
    done: dict[str, Any] = next((r["result"] for r in records if "num_train" in r["result"]), {})
    sizes = f"N = {done['num_train']:,} to train on, D = {done['dims']}, " if done else ""
    found = distinct(records, "seed")
    seeds = f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
    return (
        f"**{dataset}**: {sizes}limit {first['config']['limit']}, at most "
        f"{first['config']['iterations']} iterations{setting.words('limit', 'iterations')}, {seeds}"
    )


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw scores against M and against evaluations, where there are any of a data set."""
    paths = []
    for dataset, setting in _settings(records):
        if any(r["result"].get(key) is not None for r in setting.records for key, _ in SCORES):
            paths.append(_against_m(dataset, setting, folder))
        if any(
            s.get(key) is not None for r in setting.records for s in r["steps"] for key, _ in SCORES
        ):
            paths.append(_in_training(dataset, setting, folder))
    return paths


def _against_m(dataset: str, setting: Setting, folder: Path) -> Path:
    records = setting.records
    figure, panels = new_figure(2)
    limit = records[0]["config"]["limit"]
    for axes, (key, label) in zip(panels, SCORES, strict=True):
        for arm, style in ((LIMIT, "o-C0"), (STOCK, "x--C1")):
            done = [r for r in choose(records, arm=arm) if r["result"].get(key) is not None]
            sizes = distinct(done, "num_inducing")
            means = []
            for size in sizes:
                values = [r["result"][key] for r in choose(done, num_inducing=size)]
                axes.plot([size] * len(values), values, ".", color=style[-2:], markersize=3)
                means.append(sum(values) / len(values))
            name = f"tf_exla, limit {limit}" if arm == LIMIT else f"stock, held to {limit}"
            axes.plot(sizes, means, style, label=name, zorder=3 if arm == STOCK else 2)
        paper = PAPER_SCORES.get(dataset, {})
        if paper:
            values = [scores[0 if key == "rmse" else 1] for scores in paper.values()]
            axes.plot([*paper], values, "s", color=PAPER, label="paper")
        died = [
            r["config"]["num_inducing"]
            for r in choose(records, arm=STOCK)
            if r["status"] in ("oom", "killed")
        ]
        everything = distinct(records, "num_inducing")
        size_axis(axes, everything, "inducing points M")
        if died:
            axes.axvspan(min(died) / 1.1, max(everything) * 1.1, color="C1", alpha=0.12,
                         label="stock runs out of memory")  # fmt: skip
        axes.set_ylabel(label)
    panels[0].legend(fontsize=8)
    figure.suptitle(f"SGPR on {dataset}{setting.words('limit')}", fontsize=11)
    path = folder / f"sgpr-{dataset}{setting.suffix}-inducing.png"
    figure.savefig(path, dpi=150)
    return path


def _in_training(dataset: str, setting: Setting, folder: Path) -> Path:
    from matplotlib import colormaps

    records = setting.records
    figure, panels = new_figure(2)
    sizes = distinct(records, "num_inducing")
    colours = colormaps["viridis"]
    for axes, (key, label) in zip(panels, SCORES, strict=True):
        for number, size in enumerate(sizes):
            colour = colours(0.9 * number / max(1, len(sizes) - 1))
            for arm, style in ((LIMIT, "-"), (STOCK, ":")):
                for record in choose(records, num_inducing=size, arm=arm):
                    steps = [s for s in record["steps"] if s.get(key) is not None]
                    axes.plot(
                        [s["evaluation"] for s in steps],
                        [s[key] for s in steps],
                        style,
                        color=colour,
                        marker="o" if arm == LIMIT else "x",
                        markersize=4 if arm == LIMIT else 7,
                    )
            axes.plot([], [], "o-", color=colour, label=f"M = {size:,}")
        axes.plot([], [], "x:", color="0.3", label="stock, where it runs")
        axes.set_xlabel("evaluations of loss and gradients")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    figure.suptitle(f"SGPR on {dataset}{setting.words()}: scores during training", fontsize=11)
    path = folder / f"sgpr-{dataset}{setting.suffix}-training.png"
    figure.savefig(path, dpi=150)
    return path
