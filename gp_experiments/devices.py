"""Timings of one or several single-core workers against one core without a cluster, in turns."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

WORKS = ("sgpr", "matvec", "knn")
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}


@click.command()
@click.option("--work", "works", multiple=True, type=click.Choice(WORKS), default=WORKS)
@click.option("--workers", default=2, show_default=True, help="Processes, each on a core.")
@click.option("--rounds", default=3, show_default=True, help="How often each is timed.")
@click.option("--scale", default=1.0, show_default=True, help="Part of the full sizes.")
@click.option(
    "--output",
    default="results/devices",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
)
def devices(works: tuple[str, ...], workers: int, rounds: int, scale: float, output: Path) -> None:
    """Measure how much faster programs are on several workers of this machine."""
    cores = sorted(os.sched_getaffinity(0))
    if workers > len(cores):
        raise click.UsageError(f"{workers} workers of one core each, and {len(cores)} cores")
    output.mkdir(parents=True, exist_ok=True)
    # Restrict this process to one core as well, before TensorFlow starts its threads.
    os.environ.update(ONE_THREAD)
    os.sched_setaffinity(0, cores[:1])
    with running(cores[:workers]) as spec:
        records = [measured(work, spec, rounds, scale) for work in works]
    (output / "devices.json").write_text(json.dumps(records, indent=2) + "\n")
    table = Table("work", "no cluster", "1 worker", f"{workers} workers", "speed-up", "overhead")
    for record in records:
        alone, one, all_of_them = (record["seconds"][name] for name in ("alone", "one", "all"))
        table.add_row(
            record["work"],
            f"{median(alone):.2f} s",
            f"{median(one):.2f} s",
            f"{median(all_of_them):.2f} s",
            f"{median(one) / median(all_of_them):.2f}",
            f"{median(one) / median(alone) - 1:+.1%}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def measured(work: str, spec: Any, rounds: int, scale: float) -> dict[str, Any]:
    """Time a program without a cluster, on one worker and on all, in turns; compare results."""
    import tensorflow as tf

    import tf_exla

    function, arguments, limit = made(work, scale)
    found = tf_exla.Cluster(spec).devices
    contenders = {
        "alone": tf_exla.optimize(function, limit, strict=True),
        "one": tf_exla.optimize(function, limit, devices=found[:1], strict=True),
        "all": tf_exla.optimize(function, limit, devices=found, strict=True),
    }

    def call(name: str) -> list[Any]:
        return [one.numpy() for one in tf.nest.flatten(contenders[name](*arguments))]

    results = {name: call(name) for name in contenders}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in contenders:
            start = time.perf_counter()
            call(name)
            seconds[name].append(time.perf_counter() - start)
    report = contenders["all"].report(*arguments).to_dict()
    return {
        "work": work,
        "seconds": seconds,
        "difference": max(map(_difference, results["all"], results["alone"])),
        "limit": limit,
        "sharding": report["sharding"],
    }


def _difference(got: Any, want: Any) -> float:
    scale = np.max(np.abs(want)) or 1.0
    return float(np.max(np.abs(got - want)) / scale)


def made(work: str, scale: float) -> tuple[Callable[..., Any], tuple[Any, ...], str]:
    """Return the function of a program, its arguments, and a limit."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    if work == "sgpr":
        import gpflow

        points = int(200_000 * scale)
        inputs = rng.normal(size=(points, 3))
        targets = np.sin(3 * inputs[:, :1])
        inducing = inputs[: int(500 * min(1.0, scale**0.5))].copy()
        model = gpflow.models.SGPR((inputs, targets), gpflow.kernels.Matern32(), inducing)

        def loss() -> Any:
            with tf.GradientTape() as tape:
                value = model.training_loss()
            return value, tape.gradient(value, model.trainable_variables)

        return loss, (), "600MB"
    if work == "matvec":
        points = int(60_000 * scale)
        x, v = tf.constant(rng.normal(size=(points, 3))), tf.constant(rng.normal(size=(points, 1)))

        def matvec(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            square = tf.reduce_sum(x**2, 1)
            distance = square[:, None] + square[None] - 2 * tf.matmul(x, x, transpose_b=True)
            return tf.exp(-0.5 * distance) @ v

        return matvec, (x, v), "200MB"
    data = tf.constant(rng.normal(size=(int(200_000 * scale), 10)), tf.float32)
    queries = tf.constant(rng.normal(size=(1_000, 10)), tf.float32)

    def neighbours(data: tf.Tensor, queries: tf.Tensor) -> Any:
        square = tf.reduce_sum(data**2, 1)
        distance = square[None] - 2 * tf.matmul(queries, data, transpose_b=True)
        return tf.math.top_k(-distance, 10)

    return neighbours, (data, queries), "200MB"


@contextlib.contextmanager
def running(cores: list[int]) -> Iterator[dict[str, list[str]]]:
    """Start a worker on each core; yield their addresses, and one for the driver."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(len(cores) + 1)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    spec = {"chief": addresses[:1], "worker": addresses[1:]}
    processes = []
    try:
        for index, core in enumerate(cores):
            config = {"cluster": spec, "task": {"type": "worker", "index": index}}
            process = subprocess.Popen(
                [sys.executable, "-m", "tf_exla", "worker"],
                env={**os.environ, **ONE_THREAD, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            os.sched_setaffinity(process.pid, {core})
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if "serves" not in process.stdout.readline():
                raise click.ClickException("a worker did not start")
        yield spec
    finally:
        for process in processes:
            process.kill()
            process.wait()
