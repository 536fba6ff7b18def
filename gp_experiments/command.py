"""The commands of the experiments: one per name, `list`, and `figures`."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import click
from rich.console import Console

from gp_experiments.configuration import ConfigError, load_config
from gp_experiments.datasets import DEFAULT_DIR
from gp_experiments.results.command import figures

# In the order of the documentation; each is a module of gp_experiments.experiments.
NAMES = ("sgpr", "matvec", "knn", "attention", "cg", "graphs")


def experiment(name: str) -> ModuleType:
    """Return the module of an experiment: SUMMARY, Config, tasks(config)."""
    return importlib.import_module(f"gp_experiments.experiments.{name}")


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
    @click.option(
        "--data-dir",
        default=DEFAULT_DIR,
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the data sets; what is not there is downloaded into it.",
    )
    @click.option("--force", is_flag=True, help="Repeat runs that have a record.")
    def command(
        config: Path | None,
        overrides: tuple[str, ...],
        out: Path | None,
        data_dir: Path,
        force: bool,
    ) -> None:
        from gp_experiments.sweep import sweep

        module = experiment(name)
        try:
            chosen = load_config(module.Config, config, overrides)
            tasks = list(module.tasks(chosen))
        except ConfigError as error:
            raise click.ClickException(str(error)) from error
        console = Console()
        folder = out or Path("results") / name
        try:
            counts = sweep(
                name,
                tasks,
                out=folder,
                data_dir=data_dir,
                force=force,
                timeout=chosen.timeout,
                console=console,
            )
        except KeyboardInterrupt:
            console.print(f"interrupted; the same command goes on. Records are in {folder}")
            raise SystemExit(130) from None
        ended = ", ".join(f"{count} {status}" for status, count in counts.items())
        console.print(f"{len(tasks)} runs: {ended}. Records are in {folder}", soft_wrap=True)
        if counts["failed"]:
            raise SystemExit(1)

    command.help = experiment(name).__doc__
    return command


@click.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for name in NAMES:
        click.echo(f"{name:10} {experiment(name).SUMMARY}")


def commands() -> list[click.Command]:
    """Return all of them."""
    return [*map(_command, NAMES), list_experiments, figures]
