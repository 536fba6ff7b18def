"""The command line: run an unmodified script under a limit; measure the machine."""

from __future__ import annotations

import runpy
import sys
from dataclasses import asdict
from pathlib import Path

import click

from tf_exla.machine import machine_name


@click.group(help="Run TensorFlow programs inside a memory limit.")
def main() -> None:
    pass


@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    help="Run SCRIPT with every outermost tf.function optimized.",
)
@click.option("--limit", help='The cap on the peak, as "1GB"; default TF_EXLA_LIMIT or "auto".')
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was done to a file (*.json: as JSON).",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail where a function cannot be optimized; else it runs as it was.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    limit: str | None, report: Path | None, strict: bool, script: Path, args: tuple[str, ...]
) -> None:
    from tf_exla.frontends.tf.script import optimized_functions

    sys.argv = [str(script), *args]
    sys.path[0] = str(script.resolve().parent)
    with optimized_functions(limit, strict=strict) as session:
        try:
            runpy.run_path(str(script), run_name="__main__")
        finally:
            if report is not None:
                session.write(report)


@main.command(help="Measure this machine's rates, by which later processes choose among plans.")
@click.option("--forget", is_flag=True, help="Go back to the rates that tf_exla comes with.")
def calibrate(forget: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from tf_exla import rates

    path = rates.rates_file()
    if path is None:
        raise click.ClickException(f"{rates.VARIABLE} is empty: it says that no rates are kept")
    if forget:
        path.unlink(missing_ok=True)
        click.echo(f"removed {path}")
        return
    from tf_exla.frontends.tf.calibrate import measure_rates

    measured = measure_rates()
    rates.save(measured, path)
    table = Table("seconds of one", "usual", "measured", "ratio")
    for name, usual in asdict(rates.Rates()).items():
        value = getattr(measured, name)
        table.add_row(name, f"{usual:.1e}", f"{value:.1e}", f"{value / usual:.2f}")
    Console().print(table)
    click.echo(f"{path}: rates of {machine_name()}")


if __name__ == "__main__":
    main(prog_name="python -m tf_exla")
