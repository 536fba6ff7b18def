"""Memory and time of SGPR's loss and gradients: stock TensorFlow and inside a limit."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gp_experiments.fresh_process import FRUGAL, QUICK, call_fresh


@click.command()
@click.option("-n", "--num-data", default=200_000, show_default=True, type=click.IntRange(1))
@click.option("-m", "--num-inducing", default=500, show_default=True, type=click.IntRange(1))
@click.option("--limit", default="600MB", show_default=True, help='A size, such as "600MB".')
@click.option("--stock/--no-stock", default=True, show_default=True, help="Run stock, too.")
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1))
def bench(num_data: int, num_inducing: int, limit: str, stock: bool, repeats: int) -> None:
    """Measure one SGPR loss with gradients, stock and limited.

    Made-up data with three inputs, float64. Peaks are each measured in a fresh process, times in
    one process in turns.
    """
    from tf_exla.byte_size import format_bytes

    program = {"num_data": num_data, "num_inducing": num_inducing}
    limited = call_fresh(peak, environment=FRUGAL, limit=limit, **program)
    whole = call_fresh(peak, environment=FRUGAL, limit=None, **program) if stock else {}
    seconds = call_fresh(
        times, environment=QUICK, limit=limit, stock=stock, repeats=repeats, **program
    )
    table = Table(
        "",
        "stock TensorFlow",
        "tf_exla",
        title=f"SGPR loss and gradients, N = {num_data:,}, M = {num_inducing:,}, float64",
    )
    table.add_row("limit", "-", limit)
    table.add_row(
        "projected peak", format_bytes(limited["stock"]), format_bytes(limited["projected"])
    )
    table.add_row(
        "measured peak",
        format_bytes(whole["measured"]) if stock else "not run",
        format_bytes(limited["measured"]),
    )
    table.add_row(
        "seconds, the quickest",
        f"{min(seconds['stock']):.2f}" if stock else "not run",
        f"{min(seconds['limited']):.2f}",
    )
    Console().print(table)


def peak(num_data: int, num_inducing: int, limit: str | None) -> dict[str, int]:
    """Return `measured`, and with a limit `projected` and `stock` (projected), in bytes."""
    import tf_exla

    function, x = value_and_gradients(num_data, num_inducing, limit)
    sizes = {"measured": int(tf_exla.measured_peak(function, x))}
    if limit is not None:
        report = function.report(x)
        sizes |= {"projected": report.projected_peak, "stock": report.projected_peak_before}
    return sizes


def times(
    num_data: int, num_inducing: int, limit: str, stock: bool, repeats: int
) -> dict[str, list[float]]:
    """Return the seconds of each call, after a first one that traces."""
    functions = {"limited": value_and_gradients(num_data, num_inducing, limit)}
    if stock:
        functions["stock"] = value_and_gradients(num_data, num_inducing, None)
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, (function, x) in functions.items():
            start = time.perf_counter()
            function(x)
            if repeat > 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def value_and_gradients(num_data: int, num_inducing: int, limit: str | None) -> tuple[Any, Any]:
    """Return the function that GPflow's Scipy minimizes, and its argument x [P]."""
    import gpflow
    import numpy as np

    from gp_experiments.models import build_sgpr
    from tf_exla.gpflow import Scipy

    X = np.random.default_rng(0).uniform(-2, 2, size=(num_data, 3))
    model = build_sgpr((X, np.sin(3 * X[:, :1])), X[:num_inducing])
    variables = model.trainable_variables
    optimizer = gpflow.optimizers.Scipy() if limit is None else Scipy(limit)
    optimizer.eval_func(model.training_loss_closure(), variables, {})
    (function,) = optimizer.compile_cache.values()
    return function, optimizer.initial_parameters(variables)
