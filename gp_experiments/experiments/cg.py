"""The mean of a Gaussian process (kernel ridge regression) by preconditioned conjugate gradients.

The kernel matrix K [N, N] is written whole, once before the iterations; under a limit it is never
held: its producers move into the loop and are split there. The preconditioner is the Nystroem
approximation of K + noise by greedily selected points, applied by Woodbury's identity (Gardner et
al. 2018, "GPyTorch", take a pivoted Cholesky decomposition for it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from scipy.linalg import solve_triangular

from gp_experiments import calls, datasets, evaluate, models
from gp_experiments.arms import Arm
from gp_experiments.experiments import runs
from gp_experiments.ranges import Limits, Several, Share
from gp_experiments.sweep import Task

SUMMARY = "a GP's mean by preconditioned conjugate gradients, where K does not fit"


@dataclass(frozen=True, kw_only=True)
class Config(runs.Settings):
    """`tolerance` is relative, of the residual's norm. `rank`: points of the preconditioner."""

    datasets: Several[str]
    limits: Limits
    lengthscale: PositiveFloat = 1.0
    noise: PositiveFloat = 0.01
    rank: PositiveInt = 100
    iterations: PositiveInt = 200
    tolerance: Share = 1e-3
    seed: NonNegativeInt = 111
    repeats: NonNegativeInt = 1


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One solve."""

    dataset: str
    lengthscale: float
    noise: float
    rank: int
    iterations: int
    tolerance: float
    seed: int


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each data set, stock and each limit."""
    for dataset in config.datasets:
        for arm in runs.arms(config, config.limits):
            run = Run(
                dataset=dataset, lengthscale=config.lengthscale, noise=config.noise,
                rank=config.rank, iterations=config.iterations, tolerance=config.tolerance,
                seed=config.seed, **arm,
            )  # fmt: skip
            data = (datasets.check_name_and_file, (dataset, None))
            yield runs.task(__name__, dataset, run, data=data)


def problem(run: Run, data_dir: Path) -> tuple[Any, Any, Any]:
    """Return the kernel, the split of the data, and [X [N, D], y [N], B [N, R]]."""
    split = datasets.load(run.dataset, data_dir).split(run.seed)
    X, y = split.train
    kernel = calls.programs(run.frontend).matern32(run.lengthscale)
    Z = models.select_inducing_points(
        X, run.rank, models.matern32(run.lengthscale), rng=np.random.default_rng(run.seed)
    )
    Kzz, Kzx = (np.asarray(kernel(Z, other)) for other in (Z, X))
    factor = np.linalg.cholesky(Kzz + 1e-6 * np.eye(len(Z)))
    B = solve_triangular(factor, Kzx, lower=True).T  # [N, R]
    return kernel, split, [X, y[:, 0], B]


def solver(kernel: Any, run: Run) -> Any:
    """Return the solver as a function of X, y and B."""
    return calls.programs(run.frontend).conjugate_gradients(kernel, run)


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak of the solver, held to the limit."""
    run, data_dir = runs.parse(Run, arguments)

    def make() -> runs.Written:
        kernel, split, inputs = problem(run, data_dir)
        num_train, dims = split.train[0].shape
        arm.note(num_train=num_train, num_test=len(split.test[0]), dims=dims)
        return solver(kernel, run), inputs

    return runs.peak_of(run, make, arm)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the solver, and predict the test rows."""
    run, data_dir = runs.parse(Run, arguments)
    kernel, split, inputs = problem(run, data_dir)
    program = runs.built(run, lambda: (solver(kernel, run), inputs))
    mean = calls.programs(run.frontend).mean(kernel)
    X, y, _ = inputs
    predict = runs.built(run, lambda: (mean, [split.test[0], X, y]))
    solved: list[Any] = []

    def call() -> Any:
        solved[:] = program.call(*program.arguments)
        return solved[:1]

    times = calls.time_calls(call, arm, repeats=run.repeats)
    weights, iterations, residual = solved
    (predicted,) = predict.call(*predict.arguments[:2], weights)
    return times | {
        "iterations": int(iterations),
        "residual": float(residual),
        "rmse": evaluate.rmse(split.test[1], np.asarray(predicted)),
    }
