"""GPflow models, stock against optimized: times interleaved, peaks in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from gp_experiments.fresh_peak import ENVIRONMENT
from gp_experiments.results.command import replaced
from gp_experiments.terminal import new_console


@dataclass(frozen=True)
class Case:
    """One row of the table: a program and its sizes, the limit, the number of timing rounds.

    `inducing`: for a posterior or its variance, the number of query points. `stock`: whether stock
    is run.
    """

    points: int
    inducing: int
    limit: str
    rounds: int
    stock: bool = True
    dimension: int = 3
    work: str = "training"

    def __str__(self) -> str:
        points, other = f"{self.points:,} x {self.dimension}", f"{self.inducing:,}"
        if self.work == "posterior":
            return f"GPR posterior, {points}, at {other} points"
        if self.work == "variance":
            return f"diagonal of K Q Kᵀ, {points}, at {other} points"
        return f"SGPR loss and gradients, {points}, M = {other}"


CASES = (
    Case(50_000, 200, "60MB", 5),
    Case(820_000, 50, "200MB", 3, dimension=9),
    Case(2_000, 50_000, "200MB", 3, work="posterior"),
    Case(500, 50_000, "100MB", 3, stock=False, work="variance"),
    Case(200_000, 500, "600MB", 3),
    Case(200_000, 500, "200MB", 3),
    Case(1_000_000, 1_000, "2GB", 1, stock=False),
)


@click.command()
@click.option("--quick", is_flag=True, help="Only the smallest case.")
@click.option("--full", is_flag=True, help="A million points, too: some twenty minutes more.")
@click.option(
    "--output",
    default="results/bench",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Markdown page: what is between <!-- bench --> and <!-- end --> becomes the table.",
)
def bench(quick: bool, full: bool, output: Path, page: Path | None) -> None:
    """Measure GPflow models in time and memory, stock and optimized."""
    output.mkdir(parents=True, exist_ok=True)
    console = new_console()
    rows = []
    for case in CASES[:1] if quick else CASES if full else CASES[:-1]:
        console.print(f"{case}, limit {case.limit} ...")
        record = {
            **asdict(case),
            "title": str(case),
            **_fresh(case, "peak"),
            **_fresh(case, "time"),
        }
        with (output / "records.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        rows.append(table_row(record))
    table = "\n".join([*HEADER, *rows])
    (output / "table.md").write_text(table + "\n")
    if page is not None:
        page.write_text(replaced(page.read_text(), {"bench": table}))
    console.print(table, soft_wrap=True)


# Times are measured with oneDNN's pool, which the command line switches off for all commands.
DEFAULTS = {"TF_ENABLE_ONEDNN_OPTS": "1"}
HEADER = (
    "| work | limit | stock: projected peak | seconds | projected | measured | seconds | ratio |",
    "|---|---|---|---|---|---|---|---|",
)


def table_row(record: dict[str, Any]) -> str:
    """Format one record as a row of a Markdown table; seconds are medians."""
    from tf_exla.byte_size import format_bytes

    stock, optimized = record["stock_seconds"], record["seconds"]
    ratios = [ours / theirs for ours, theirs in zip(optimized, stock, strict=True)] if stock else []
    cells = [
        record["title"],
        record["limit"],
        format_bytes(record["projected_before"]),
        f"{median(stock):.2f}" if stock else "not run",
        format_bytes(record["projected"]),
        format_bytes(record["measured"]),
        f"{median(optimized):.2f}",
        f"{median(ratios):.2f}" if ratios else "",
    ]
    return f"| {' | '.join(cells)} |"


def _fresh(case: Case, what: str) -> dict[str, Any]:
    """Run one half of a case in a process of its own.

    Times are measured with TensorFlow's default settings, whose pooled allocator saves stock half
    of the time. Peaks are measured without the pool, with freed blocks returned to the system.
    """
    environment = ENVIRONMENT if what == "peak" else {**DEFAULTS, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "gp_experiments.bench", what, json.dumps(asdict(case))],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _program(case: Case) -> Any:
    """Return the program on synthetic data as a Python function; its first result is a scalar."""
    import gpflow
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    X = rng.standard_normal((case.points, case.dimension))
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((case.points, 1))
    kernel = gpflow.kernels.Matern32(lengthscales=np.ones(case.dimension))
    if case.work == "variance":
        inverse = tf.constant(np.linalg.inv(kernel(X).numpy() + 0.1 * np.eye(case.points)))
        others = tf.constant(rng.standard_normal((case.inducing, case.dimension)))

        def variance() -> Any:
            across = kernel(others, X)
            found = tf.linalg.diag_part(across @ inverse @ tf.transpose(across))
            return tf.reduce_sum(found), found

        return variance
    if case.work == "posterior":
        exact = gpflow.models.GPR((X, Y), kernel, noise_variance=0.1)
        queries = tf.constant(rng.standard_normal((case.inducing, case.dimension)))

        def posterior() -> Any:
            mean, variance = exact.predict_f(queries)
            return tf.reduce_sum(mean), mean, variance

        return posterior
    Z = X[: case.inducing].copy()
    model = gpflow.models.SGPR((X, Y), kernel, inducing_variable=Z, noise_variance=0.1)

    def loss_and_gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    return loss_and_gradients


def peak(case: Case) -> dict[str, Any]:
    """Return projected and measured peaks in bytes, and the seconds that rewriting took."""
    import tf_exla

    optimized = tf_exla.optimize(_program(case), case.limit)
    report = optimized.report()
    return {
        "projected_before": report.projected_peak_before,
        "projected": report.projected_peak,
        "rewrite_seconds": report.rewrite_seconds,
        "measured": int(tf_exla.measured_peak(optimized)),
    }


def times(case: Case) -> dict[str, Any]:
    """Return the seconds of both programs, called in turn; a first call counts if rounds is 1."""
    import tensorflow as tf

    import tf_exla

    program = _program(case)
    optimized = tf_exla.optimize(program, case.limit)
    stock = tf.function(program) if case.stock else None
    seconds: dict[str, list[float]] = {"seconds": [], "stock_seconds": []}
    contenders = [("seconds", optimized)] + ([("stock_seconds", stock)] if stock else [])
    for round_ in range(case.rounds + 1):
        for name, function in contenders:
            start = time.perf_counter()
            float(function()[0])
            if round_ or case.rounds == 1:
                seconds[name].append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    chosen = Case(**json.loads(sys.argv[2]))
    print(json.dumps(peak(chosen) if sys.argv[1] == "peak" else times(chosen)))
