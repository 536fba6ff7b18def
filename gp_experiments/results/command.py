"""The command `figures`: every table and picture from the records in a folder."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click

from gp_experiments.calls import FRONTENDS
from gp_experiments.records import Record, Records, frontend_of

EXPERIMENTS = ("sgpr", "matvec", "knn", "attention", "cg", "graphs")


NOTES = {
    "jax": "**In JAX**, stock is `jax.jit`, and projected what arguments, results and XLA's "
    "buffers take; limit is `tf_exla.jax.jit`, and projected what was certified.\n"
}
"""What stands above the tables of a front end."""
PICTURE_BYTES = 100_000
"""The size of a picture beside a page, at most."""


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Markdown page: what is between <!-- NAME --> and <!-- end --> is replaced by tables "
    "and pictures, which go into the folder figures beside it.",
)
def figures(folder: Path, page: Path | None = None) -> None:
    """Make all tables and pictures from the records in FOLDER and below, into FOLDER/figures."""
    found = read(folder)
    if not found:
        raise click.ClickException(f"there are no records in {folder}")
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    texts = {name: tables(name, records) for name, records in found.items()}
    (target / "tables.md").write_text("\n".join(f"## {n}\n\n{t}" for n, t in texts.items()))
    click.echo(target / "tables.md")
    drawn = {name: pictures(name, records, target) for name, records in found.items()}
    for path in (path for paths in drawn.values() for path in paths):
        click.echo(path)
    if page is not None:
        texts = {name: text + shown(drawn[name], target, page) for name, text in texts.items()}
        page.write_text(replaced(page.read_text(), texts))
        click.echo(page)


def pictures(name: str, records: list[Record], target: Path) -> list[Path]:
    """Draw the pictures of an experiment; return their paths."""
    module = importlib.import_module(f"gp_experiments.results.{name}")
    paths: list[Path] = []
    for frontend, own in by_frontend(records).items():
        folder = target if frontend == "tensorflow" else target / frontend
        folder.mkdir(exist_ok=True)
        paths += module.figures(own, folder)
    return paths


def by_frontend(records: list[Record]) -> dict[str, list[Record]]:
    """Return the records of each front end that has some."""
    chosen = {name: [r for r in records if frontend_of(r) == name] for name in FRONTENDS}
    return {name: own for name, own in chosen.items() if own}


def shown(paths: list[Path], source: Path, page: Path) -> str:
    """Put small copies of PNG pictures, which are in the folder `source` or below, beside a page.

    Return Markdown that shows them.
    """
    from PIL import Image

    folder = page.parent / "figures"
    links = []
    for path in (path for path in paths if path.suffix == ".png"):
        copy = folder / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as picture:
            few = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
            few.save(copy, optimize=True)
        if copy.stat().st_size > PICTURE_BYTES:
            copy.unlink()  # a graph of hundreds of nodes: to be looked at, not to be shown
            continue
        link = copy.relative_to(page.parent).as_posix()
        links.append(f"![{path.stem.replace('-', ' ')}]({link})\n")
    return "".join(f"\n{link}" for link in links)


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
    parts = []
    for frontend, own in by_frontend(records).items():
        parts += [NOTES[frontend]] if frontend in NOTES else []
        parts += [table.markdown() for table in module.tables(own)]
        commits = ", ".join(sorted({r["commit"] or "?" for r in own}))
        parts.append(f"On {machine(own)}; commit {commits}.\n")
    return "\n".join(parts)


def replaced(page: str, texts: dict[str, str]) -> str:
    """Return the page with the text of each name between its marks."""
    for name, text in texts.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = mark.sub(lambda found, text=text: f"{found[1]}\n{text}\n{found[2]}", page)  # type: ignore[misc]
    return page
