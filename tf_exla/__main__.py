"""The command line: run an unmodified script with its `tf.function`s under a limit."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click


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


if __name__ == "__main__":
    main(prog_name="python -m tf_exla")
