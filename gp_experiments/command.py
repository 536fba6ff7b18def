"""The commands of the experiments: one per name, `all`, `list`, and `figures`."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import get_args

import click
from rich.console import Console

from gp_experiments.calls import Frontend
from gp_experiments.configuration import ConfigError, load_config
from gp_experiments.datasets import DEFAULT_DIR
from gp_experiments.downloads import DataError
from gp_experiments.results.command import figures
from gp_experiments.terminal import new_console

# In the order of the documentation; each is a module of gp_experiments.experiments.
NAMES = ("sgpr", "matvec", "knn", "attention", "cg", "graphs")


def experiment(name: str) -> ModuleType:
    """Return the module of an experiment: SUMMARY, Config, tasks(config)."""
    return importlib.import_module(f"gp_experiments.experiments.{name}")


_DATA_DIR = click.option(
    "--data-dir",
    default=DEFAULT_DIR,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the data sets; what is not there is downloaded into it.",
)
_FORCE = click.option("--force", is_flag=True, help="Repeat runs that have a record.")


_FRONTEND = click.option(
    "--frontend",
    type=click.Choice(get_args(Frontend)),
    help="What the programs are written in; default: what the config says, else tensorflow.",
)


def run(
    name: str,
    config: Path | None,
    overrides: Sequence[str],
    out: Path,
    data_dir: Path,
    force: bool,
    console: Console,
) -> Counter[str]:
    """Run an experiment; return the number of its runs by status. Ctrl-C ends the program."""
    from gp_experiments.sweep import sweep

    module = experiment(name)
    try:
        chosen = load_config(module.Config, config, overrides)
        tasks = list(module.tasks(chosen))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    try:
        counts = sweep(
            name,
            tasks,
            out=out,
            data_dir=data_dir,
            force=force,
            timeout=chosen.timeout,
            console=console,
        )
    except DataError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command goes on. Records are in {out}")
        raise SystemExit(130) from None
    ended = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"{len(tasks)} runs: {ended}. Records are in {out}", soft_wrap=True)
    return counts


def _command(name: str) -> click.Command:
    @click.command(name, short_help=experiment(name).SUMMARY)
    @click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"A TOML file, as configs/{name}-small.toml.",
    )
    @click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Over the config.")
    @click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Folder of the records; default results/{name}.",
    )
    @_DATA_DIR
    @_FORCE
    def command(
        config: Path | None,
        overrides: tuple[str, ...],
        out: Path | None,
        data_dir: Path,
        force: bool,
        frontend: str | None = None,
    ) -> None:
        folder = out or Path("results") / name
        given = (*overrides, *_frontend(frontend))
        if run(name, config, given, folder, data_dir, force, new_console())["failed"]:
            raise SystemExit(1)

    command.help = experiment(name).__doc__
    return _FRONTEND(command) if _has_frontends(name) else command


def _has_frontends(name: str) -> bool:
    return any(field.name == "frontend" for field in dataclasses.fields(experiment(name).Config))


def _frontend(chosen: str | None) -> tuple[str, ...]:
    return (f"frontend={chosen}",) if chosen else ()


@click.command("all")
@click.option(
    "--configs",
    default="configs",
    show_default=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the configs; NAME-small.toml of each experiment is run.",
)
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the records, in a folder NAME each.",
)
@_DATA_DIR
@_FORCE
@_FRONTEND
@click.pass_context
def run_all(
    context: click.Context,
    configs: Path,
    out: Path,
    data_dir: Path,
    force: bool,
    frontend: str | None,
) -> None:
    """Run the small config of every experiment in turn, then make tables and pictures."""
    console = new_console()
    seconds: dict[str, float] = {}
    failed = 0
    for name in NAMES:
        start = time.perf_counter()
        config = configs / f"{name}-small.toml"
        given = _frontend(frontend) if _has_frontends(name) else ()
        failed += run(name, config, given, out / name, data_dir, force, console)["failed"]
        seconds[name] = time.perf_counter() - start
    context.invoke(figures, folder=out)
    for name, spent in {**seconds, "all": sum(seconds.values())}.items():
        console.print(f"{name:10} {spent:6.0f} s")
    if failed:
        raise SystemExit(1)


@click.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for name in NAMES:
        click.echo(f"{name:10} {experiment(name).SUMMARY}")


def commands() -> list[click.Command]:
    """Return all commands."""
    return [*map(_command, NAMES), run_all, list_experiments, figures]
