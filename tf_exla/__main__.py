"""The command line: run an unmodified script under a limit; measure the machine."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from tf_exla import __version__
from tf_exla.byte_size import read_bytes


@click.group(help="Run TensorFlow programs inside a memory limit.")
@click.version_option(__version__, prog_name="tf_exla")
def main() -> None:
    pass


class _Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Bytes, or "auto"."""

    name = "size"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        if value == "auto":
            return value
        try:
            return read_bytes(value, "--limit")
        except ValueError as error:
            self.fail(str(error), param, ctx)


# Many parameters: the command's options.
@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    help="Run PROGRAM, a script or with -m a module, with every outermost tf.function optimized.",
)
@click.option(
    "--limit",
    type=_Size(),
    help='The cap on the peak, as "1GB"; default TF_EXLA_LIMIT or "auto".',
)
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
@click.option(
    "--devices",
    help='A number, of this process\'s first devices, or "all": those of the cluster in TF_CONFIG '
    "where it is set, else of this process.",
)
@click.option(
    "--jit-compile/--no-jit-compile",
    default=None,
    help="Whether XLA compiles the loops; by default on a CPU, where that is known to be faster.",
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is the name of a module.")
@click.argument("program")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    limit: int | str | None,
    report: Path | None,
    strict: bool,
    devices: str | None,
    jit_compile: bool | None,
    module: bool,
    program: str,
    args: tuple[str, ...],
) -> None:
    from tf_exla.run.command import run_program

    if program.startswith("-"):
        options = [name for one in click.get_current_context().command.params for name in one.opts]
        raise click.NoSuchOption(program.partition("=")[0], possibilities=options)
    if not module and not Path(program).exists():
        raise click.BadParameter(f"there is no file {program!r}", param_hint="PROGRAM")
    run_program(
        program,
        args,
        module=module,
        limit=limit,
        strict=strict,
        report=report,
        devices=devices,
        jit_compile=jit_compile,
    )


@main.command(
    help="Run shards for the driver of a cluster until it ends: the worker that TF_CONFIG names. "
    "Whoever reaches the port runs code here: TensorFlow's servers authenticate nobody."
)
@click.option("--network", is_flag=True, help="Addresses may be of other machines.")
@click.option("--forever", is_flag=True, help="Serve also when the driver has ended.")
def worker(network: bool, forever: bool) -> None:
    from tf_exla.run.worker import serve

    try:
        serve(network=network, forever=forever)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


@main.command(
    help="Measure the rates of the GPU that TensorFlow sees, else of the processor, by which later"
    " processes choose among plans."
)
@click.option("--forget", is_flag=True, help="Go back to the rates that tf_exla comes with.")
@click.option("--anyway", is_flag=True, help="Even where other processes use the machine.")
def calibrate(forget: bool, anyway: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from tf_exla.frontends.tf.measuring import other_load
    from tf_exla.model import rates

    path = rates.rates_file()
    if path is None:
        raise click.ClickException(f"{rates.VARIABLE} is empty: it says that no rates are kept")
    if forget:
        path.unlink(missing_ok=True)
        click.echo(f"removed {path}")
        return
    probe = other_load.OtherLoad()
    time.sleep(other_load.PROBE)
    _demand_quiet(probe.share(), anyway)
    from tf_exla.frontends.tf.device import device, device_kind

    kind = device_kind(device())
    meanwhile = other_load.OtherLoad()
    if device() == "GPU":
        from tf_exla.frontends.tf.measuring.calibrate_gpu import measure_gpu

        found = measure_gpu()
    else:
        from tf_exla.frontends.tf.measuring.calibrate import measure_cpu

        found = measure_cpu()
    _demand_quiet(meanwhile.share(), anyway)
    measured = rates.plausible(found, kind)
    rates.save(measured, kind, path)
    table = Table("seconds of one", "usual", "measured", "ratio")
    for name, usual in asdict(kind.usual).items():
        value = getattr(measured, name)
        ratio = f"{value / usual:.2f}" if usual else ""  # some rates are of GPUs only
        table.add_row(name, f"{usual:.1e}", f"{value:.1e}", ratio)
    Console().print(table)
    click.echo(f"{path}: rates of {kind.name}")


def _demand_quiet(share: float | None, anyway: bool) -> None:
    """Raise ClickException, or print a line, if others use too many cores or that is unknown."""
    from tf_exla.frontends.tf.measuring.other_load import QUIET

    if share is None:
        click.echo("what other processes use is not known here: leave the machine alone", err=True)
    elif share > QUIET:
        most = f"{QUIET:.0%} at most leave rates right"
        busy = f"other processes had {share:.0%} of the cores, where {most}"
        if not anyway:
            raise click.ClickException(f"{busy}. Nothing was saved; --anyway measures all the same")
        click.echo(f"{busy}; saved all the same", err=True)


@main.command(help="Print what is known of TensorFlow's ops: all, or those whose names match.")
@click.argument("names", nargs=-1)
def ops(names: tuple[str, ...]) -> None:
    from tf_exla.frontends.tf.ops.show import show

    show(names)


@main.command(help="Check random programs against their optimized selves.")
@click.option("--programs", default=200, show_default=True, help="How many.")
@click.option("--seed", default=0, show_default=True, help="Seed of the first; others follow it.")
@click.option("--jobs", default=1, show_default=True, help="Processes side by side.")
@click.option("--seconds", default=60.0, show_default=True, help="Time limit of one program.")
@click.option(
    "--folder",
    default="fuzz-results",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Takes the log, and a test file for each failure; seeds in the log are not run again.",
)
def fuzz(programs: int, seed: int, jobs: int, seconds: float, folder: Path) -> None:
    try:
        import hypothesis  # noqa: F401
    except ImportError as error:
        raise click.ClickException("this needs hypothesis: pip install 'tf_exla[fuzz]'") from error
    from tf_exla.fuzz.command import fuzz as run_fuzz

    verdicts = run_fuzz(range(seed, seed + programs), jobs, seconds, folder)
    for verdict, count in verdicts.most_common():
        click.echo(f"{verdict:16} {count}")
    sys.exit(0 if set(verdicts) <= {"holds", "invalid"} else 1)


if __name__ == "__main__":
    main(prog_name="python -m tf_exla")
