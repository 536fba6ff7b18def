"""The main example: GPflow's SGPR on real terrain, within a limit that stock TensorFlow exceeds."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gp_experiments.terminal import new_console

# In standardised inputs: about four kilometres, the distance from ridge to ridge.
INITIAL_LENGTHSCALE = 0.5


@click.command()
@click.option("-m", "--num-inducing", default=500, show_default=True, type=click.IntRange(1))
@click.option("--limit", default="300MB", show_default=True, help='A size, such as "300MB".')
@click.option("--iterations", default=20, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--output",
    default="results/demo",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for parameters, results and pictures; those of an earlier run are replaced.",
)
def demo(num_inducing: int, limit: str, iterations: int, seed: int, output: Path) -> None:
    """Train GPflow's SGPR on real terrain inside a memory limit."""
    output.mkdir(parents=True, exist_ok=True)
    for name in ("parameters.npz", "results.json", "surface.png", "memory.png"):
        (output / name).unlink(missing_ok=True)
    console = new_console()
    try:
        results = run(num_inducing, limit, iterations, seed, output, console)
    except KeyboardInterrupt:
        path = output / "parameters.npz"
        saved = f"the best parameters so far are in {path}" if path.exists() else "nothing to save"
        console.print(f"interrupted: {saved}", soft_wrap=True)
        sys.exit(130)
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    show(results, console)
    console.print(f"Parameters, results and pictures are in {output}", soft_wrap=True)


def run(
    num_inducing: int, limit: str, iterations: int, seed: int, output: Path, console: Console
) -> dict[str, Any]:
    """Train and evaluate, save parameters and pictures in `output`, and return the numbers."""
    # Imported here, so that --help does not wait the seconds that TensorFlow takes to import.
    import numpy as np

    import tf_exla
    from gp_experiments import evaluate, figures, models, train
    from gp_experiments.data import terrain
    from gp_experiments.fresh_peak import measure_in_fresh_process
    from tf_exla.byte_size import parse_bytes
    from tf_exla.gpflow import Scipy

    start = time.perf_counter()
    try:
        limit_bytes = parse_bytes(int(limit) if limit.isdigit() else limit)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--limit") from error

    dataset, shape = terrain()
    split = dataset.split(seed)
    console.print(
        f"{dataset.name}: {len(split.train_rows):,} points to train on, {len(split.test_rows):,} "
        f"to test. GPflow's SGPR, Matern-3/2 kernel, {num_inducing} inducing points, float64."
    )
    Z = models.select_inducing_points(
        split.train[0],
        num_inducing,
        models.matern32(INITIAL_LENGTHSCALE),
        rng=np.random.default_rng(seed),
    )
    model = models.build_sgpr(split.train, Z, lengthscale=INITIAL_LENGTHSCALE)
    optimizer = Scipy(limit_bytes)
    best = train.BestParameters(model, output / "parameters.npz")
    try:
        process_before = process_peak()
        training = train.train(model, optimizer, best, iterations=iterations, console=console)
        process_after = process_peak()
        # Predict the whole grid at once: test rows for the scores, all rows for the picture.
        mean, variance = evaluate.predict(model, split.X_scale.standardise(dataset.X), limit_bytes)
    except tf_exla.MemoryLimitError as error:
        raise click.ClickException(str(error)) from error

    with console.status("measuring the peak in a fresh process"):
        measured = measure_in_fresh_process(best.path, limit=limit_bytes, seed=seed)

    y_test, test = split.test[1], split.test_rows
    metres = split.y_scale.std.item()  # metres per standardised unit
    rmse = evaluate.rmse(y_test, mean[test])
    nlpd = evaluate.nlpd(y_test, mean[test], variance[test])
    figures.plot_surface(
        output / "surface.png",
        dataset.X,
        dataset.y,
        split.y_scale.restore(mean),
        metres * variance**0.5,
        split.X_scale.restore(model.inducing_variable.Z.numpy()),
        shape=shape,
        title=f"{dataset.name}: test RMSE {rmse * metres:.1f} m, NLPD {nlpd:.2f}",
    )
    report = training.report
    figures.plot_memory(output / "memory.png", report)
    return {
        "dataset": dataset.name,
        "num_train": len(split.train_rows),
        "num_test": len(split.test_rows),
        "num_inducing": num_inducing,
        "seed": seed,
        "test_rmse": rmse,
        "test_rmse_metres": rmse * metres,
        "test_nlpd": nlpd,
        "losses": training.losses,
        "evaluations": training.evaluations,
        "optimizer_message": training.message,
        "training_seconds": training.seconds,
        "seconds": time.perf_counter() - start,
        "limit": limit_bytes,
        "projected_peak": report.projected_peak,
        "measured_peak": measured["bytes"],
        "measured_peak_method": measured["method"],
        "stock_projected_peak": report.projected_peak_before,
        "process_before_training": process_before,
        "process_peak": process_after,
        "report": report.to_dict(),
    }


def process_peak() -> int:
    """Return the peak of this process's resident set so far, in bytes."""
    import resource

    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes * (1 if sys.platform == "darwin" else 1024)


def show(results: dict[str, Any], console: Console) -> None:
    """Print the numbers of a run."""
    from tf_exla.byte_size import format_bytes

    scores = Table("test", "standardised", "", title="Predictions")
    scores.add_row("RMSE", f"{results['test_rmse']:.4f}", f"{results['test_rmse_metres']:.2f} m")
    scores.add_row("NLPD", f"{results['test_nlpd']:.4f}", "nats per point")
    memory = Table("", "stock TensorFlow", "tf_exla", title="Memory of one loss and its gradients")
    stock, projected = results["stock_projected_peak"], results["projected_peak"]
    memory.add_row("limit", "-", format_bytes(results["limit"]))
    memory.add_row("projected peak", format_bytes(stock), format_bytes(projected))
    memory.add_row("measured peak", "not run", format_bytes(results["measured_peak"]))
    console.print(scores, memory)
    console.print(
        f"Stock TensorFlow needs {stock / results['limit']:.1f} times the limit. Peaks count "
        "tensors and buffers; the measured one is of an evaluation at the trained parameters in a "
        "fresh process that gives freed memory back at once "
        f"({results['measured_peak_method']}). This process keeps freed memory for speed: Python, "
        f"libraries and data included, it had {format_bytes(results['process_before_training'])} "
        f"before training and {format_bytes(results['process_peak'])} at most in training."
    )
    console.print(
        f"{results['evaluations']} evaluations in {results['training_seconds']:.0f} s; "
        f"{results['seconds']:.0f} s in all."
    )
