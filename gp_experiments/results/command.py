"""The command `figures`: every table and picture from the records in a folder."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click

from gp_experiments.records import Record, Records

EXPERIMENTS = ("sgpr", "matvec", "knn", "attention", "cg", "graphs")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--update",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Markdown page: tables between <!-- NAME --> and <!-- end --> are replaced.",
)
def figures(folder: Path, update: Path | None) -> None:
    """Make all tables and pictures from the records in FOLDER and below, into FOLDER/figures."""
    found = read(folder)
    if not found:
        raise click.ClickException(f"there are no records in {folder}")
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    texts = {name: tables(name, records) for name, records in found.items()}
    (target / "tables.md").write_text("\n".join(f"## {n}\n\n{t}" for n, t in texts.items()))
    click.echo(target / "tables.md")
    for name, records in found.items():
        for path in importlib.import_module(f"gp_experiments.results.{name}").figures(
            records, target
        ):
            click.echo(path)
    if update is not None:
        update.write_text(replaced(update.read_text(), texts))
        click.echo(update)


def read(folder: Path) -> dict[str, list[Record]]:
    """Return the last record of each run in the folder and below, by experiment."""
    found: dict[str, dict[str, Record]] = {}
    for path in sorted(folder.rglob("records.jsonl")):
        for record in Records(path).latest():
            if record.get("experiment") in EXPERIMENTS:
                found.setdefault(record["experiment"], {})[record["key"]] = record
    return {name: list(found[name].values()) for name in EXPERIMENTS if name in found}


def tables(name: str, records: list[Record]) -> str:
    """Return the tables of an experiment as Markdown, with the machine that they are from."""
    from gp_experiments.results.common import machine

    module = importlib.import_module(f"gp_experiments.results.{name}")
    parts = [table.markdown() for table in module.tables(records)]
    commits = ", ".join(sorted({r["commit"] or "?" for r in records}))
    return "\n".join([*parts, f"On {machine(records)}; commit {commits}.\n"])


def replaced(page: str, texts: dict[str, str]) -> str:
    """Return the page with the text of each name between its marks."""
    for name, text in texts.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = mark.sub(lambda found, text=text: f"{found[1]}\n{text}\n{found[2]}", page)  # type: ignore[misc]
    return page
