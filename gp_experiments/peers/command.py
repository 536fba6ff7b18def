"""The command `peers`: measure, record, and write the table and the pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from gp_experiments.peers import table
from gp_experiments.peers.cases import CASES, Case
from gp_experiments.peers.contenders import CONTENDERS, FORCED, Contender
from gp_experiments.peers.interleave import KeptWorkers, Worker
from gp_experiments.peers.measure import Rounds, Say, measure
from gp_experiments.peers.peak import FREED_BLOCKS_LEAVE
from gp_experiments.records import Record, Records, config_key, surroundings
from gp_experiments.terminal import new_console

QUICK, FULL = Rounds(least=2, most=2), Rounds()
CURVES, RATES = "curves", "rates"


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, two rounds; no curves unless asked for.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([*(case.name for case in CASES), CURVES]),
    help="A case, or the curves; may be repeated.",
)
@click.option("--forced", is_flag=True, help="tf_exla with jit_compile=True and False, too.")
@click.option("--contender", "names", multiple=True, help="Only these, beside tf_exla.")
@click.option(
    "--out",
    default="results/peers",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Markdown page whose generated part becomes the tables.",
)
def peers(
    quick: bool,
    only: tuple[str, ...],
    forced: bool,
    names: tuple[str, ...],
    out: Path,
    page: Path | None,
) -> None:
    """Measure speed and memory beside other libraries and NumPy by hand, in turns."""
    console = new_console()
    contenders = _installed(console, forced, names)
    out.mkdir(parents=True, exist_ok=True)
    records = Records(out / "peers.jsonl")
    rounds = QUICK if quick else FULL
    found: list[Record] = []

    def add(config: dict[str, Any], result: dict[str, Any]) -> None:
        key = config_key("peers", config)
        record = {"key": key, "experiment": "peers", "config": config, **surroundings(), **result}
        records.append(record)
        found.append(record)

    cases = [case.small() if quick else case for case in CASES if not only or case.name in only]
    if cases:
        _rates(add, console)
    with ExitStack() as stack:
        start = KeptWorkers(stack, FREED_BLOCKS_LEAVE) if quick else Worker
        for case in cases:
            with console.status(f"{case.name} ...") as status:
                say = _saying(console, status)
                for result in measure(case, contenders, rounds, start=start, say=say):
                    config = {"case": case.name, "contender": result["contender"], "quick": quick}
                    add(config, result)
            _show(console, case, found)
    if CURVES in only or not (only or quick):
        _curves(add, console, rounds, quick)
    write_figures(records.latest(), out)
    if page is not None:
        page.write_text(table.with_tables(page.read_text(), (out / "table.md").read_text()))
    console.print(f"records, tables and pictures are in {out}")


def write_figures(records: Sequence[Record], out: Path) -> None:
    """Write table.md, peers.png and curves.png; of full size only, where there is any."""
    from gp_experiments.peers.plot import plot_cases, plot_curves

    measured = [one for one in records if "case" in one["config"]]
    full = [one for one in measured if not one["config"]["quick"]]
    shown = full or measured
    cases = _cases(shown)
    rates = next((one["rates"] for one in records if RATES in one["config"]), None)
    (out / "table.md").write_text(table.markdown(cases, shown, rates))
    plot_cases(out / "peers.png", cases, shown)
    curves = [one for one in records if CURVES in one["config"]]
    full_curves = [one for one in curves if not one["config"]["quick"]]
    if curves:
        plot_curves(out / "curves.png", full_curves or curves)


def _cases(records: Sequence[Record]) -> list[Case]:
    given = {one["case"]["name"]: Case(**one["case"]) for one in records}
    return [given[case.name] for case in CASES if case.name in given]


def _installed(console: Console, forced: bool, names: tuple[str, ...]) -> list[Contender]:
    chosen = [CONTENDERS[0], *(FORCED if forced else ()), *CONTENDERS[1:]]
    unknown = set(names) - {one.name for one in chosen}
    if unknown:
        known = ", ".join(one.name for one in chosen)
        raise click.BadParameter(f"no contender {', '.join(sorted(unknown))}; there are {known}")
    found = []
    for one in chosen:
        if names and one.name not in (CONTENDERS[0].name, *names):
            continue
        missing = one.missing()
        if missing:
            console.print(f"skipped: {one.name} ({', '.join(missing)} not installed)")
        else:
            found.append(one)
    return found


def _saying(console: Console, status: Status) -> Say:
    """Return how to tell what runs: beside the spinner, or, in a file, as lines."""
    return status.update if console.is_terminal else console.print


def _rates(add: Any, console: Console) -> None:
    from gp_experiments.peers.roofline import measure_rates

    with console.status("rates of products and exponentials ..."):
        add({RATES: True}, {"rates": measure_rates()})


def _show(console: Console, case: Case, found: Sequence[Record]) -> None:

    own = [one for one in found if one.get("case", {}).get("name") == case.name]
    rates = next(one["rates"] for one in found if RATES in one["config"])
    console.print(table.rich_table(case, own))
    for line in (*table.notes(own), *table.remarks(case, own, rates)):
        console.print(f"  {line}", soft_wrap=True)


def _curves(add: Any, console: Console, rounds: Rounds, quick: bool) -> None:
    from gp_experiments.peers import curves

    with console.status("curves ...") as status:
        chosen = curves.QUICK if quick else curves.FULL
        for result in curves.measure_curves(chosen, rounds, _saying(console, status)):
            point = {name: result.get(name) for name in ("share", "n", "kind", "asked")}
            config = {CURVES: result["curve"], "contender": result.get("contender"), **point}
            add({**config, "quick": quick}, result)
            console.print(
                json.dumps({k: v for k, v in result.items() if k != "loops"}), soft_wrap=True
            )
