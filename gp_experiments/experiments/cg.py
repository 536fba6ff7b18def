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

from gp_experiments.arms import Arm
from gp_experiments.experiments import runs
from gp_experiments.sweep import Task

SUMMARY = "a GP's mean by preconditioned conjugate gradients, where K does not fit"


@dataclass(frozen=True, kw_only=True)
class Config(runs.Settings):
    """`tolerance` is relative, of the residual's norm. `rank`: points of the preconditioner."""

    datasets: tuple[str, ...]
    limits: tuple[str, ...]
    lengthscale: float = 1.0
    noise: float = 0.01
    rank: int = 100
    iterations: int = 200
    tolerance: float = 1e-3
    seed: int = 111
    repeats: int = 1


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
            yield runs.task(__name__, dataset, run)


def solver(kernel: Any, run: Run) -> Any:
    """Return a function (X [N, D], y [N], B [N, R]) -> weights [N], iterations [], residual [].

    It solves (K + noise) weights = y. B Bᵀ approximates K.
    """
    import tensorflow as tf

    def conjugate_gradients(X: tf.Tensor, y: tf.Tensor, B: tf.Tensor) -> Any:
        K = kernel(X)  # [N, N]
        inner = tf.matmul(B, B, transpose_a=True)  # [R, R]
        inner = tf.linalg.cholesky(inner + run.noise * tf.eye(run.rank, dtype=X.dtype))

        def precondition(r: tf.Tensor) -> tf.Tensor:
            solved = tf.linalg.cholesky_solve(inner, tf.matmul(B, r[:, None], transpose_a=True))
            return (r - tf.matmul(B, solved)[:, 0]) / run.noise

        def unfinished(i: tf.Tensor, w: Any, r: tf.Tensor, *_: Any) -> tf.Tensor:
            return (i < run.iterations) & (tf.norm(r) > run.tolerance * tf.norm(y))

        def step(i: Any, w: Any, r: Any, p: Any, rz: Any) -> Any:
            Kp = tf.linalg.matvec(K, p) + run.noise * p
            alpha = rz / tf.reduce_sum(p * Kp)
            w, r = w + alpha * p, r - alpha * Kp
            z = precondition(r)
            new = tf.reduce_sum(r * z)
            return i + 1, w, r, z + new / rz * p, new

        z = precondition(y)
        start = (tf.constant(0), tf.zeros_like(y), y, z, tf.reduce_sum(y * z))
        i, w, r, _, _ = tf.while_loop(unfinished, step, start)
        return w, i, tf.norm(r) / tf.norm(y)

    return conjugate_gradients


def problem(run: Run, data_dir: Path) -> tuple[Any, Any, Any]:
    """Return the kernel, the split of the data, and [X [N, D], y [N], B [N, R]]."""
    import gpflow
    import numpy as np
    import tensorflow as tf

    from gp_experiments import datasets, models

    split = datasets.load(run.dataset, data_dir).split(run.seed)
    X, y = map(tf.constant, split.train)
    kernel = gpflow.kernels.Matern32(lengthscales=run.lengthscale)
    Z = models.select_inducing_points(
        split.train[0], run.rank, models.matern32(run.lengthscale),
        rng=np.random.default_rng(run.seed),
    )  # fmt: skip
    factor = tf.linalg.cholesky(kernel(Z) + 1e-6 * tf.eye(len(Z), dtype=tf.float64))
    B = tf.transpose(tf.linalg.triangular_solve(factor, kernel(Z, X)))  # [N, R]
    return kernel, split, [X, y[:, 0], B]


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak of the solver, held to the limit."""
    run, data_dir = runs.parse(Run, arguments)

    def make() -> runs.Program:
        kernel, split, inputs = problem(run, data_dir)
        num_train, dims = split.train[0].shape
        arm.note(num_train=num_train, num_test=len(split.test[0]), dims=dims)
        return solver(kernel, run), inputs

    return runs.peak_of(run, make, arm)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the solver, and predict the test rows."""
    import tensorflow as tf

    from gp_experiments import evaluate
    from gp_experiments.measuring import build, limit_device, time_calls

    run, data_dir = runs.parse(Run, arguments)
    limit_device(run.cap, run.limit)
    kernel, split, inputs = problem(run, data_dir)

    def mean(X_test: tf.Tensor, X: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(kernel(X_test, X), weights)[:, None]  # [N_test, 1]

    X, y, _ = inputs
    program, _ = build(solver(kernel, run), inputs, run.arm, run.limit, run.jit_compile)
    X_test = tf.constant(split.test[0])
    predict, _ = build(mean, [X_test, X, y], run.arm, run.limit, run.jit_compile)
    solved: list[Any] = []

    def call() -> Any:
        solved[:] = program(*inputs)
        return solved[:1]

    times = time_calls(call, arm, repeats=run.repeats)
    weights, iterations, residual = solved
    return times | {
        "iterations": int(iterations),
        "residual": float(residual),
        "rmse": evaluate.rmse(split.test[1], predict(X_test, X, weights).numpy()),
    }
