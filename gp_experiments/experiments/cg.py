"""The mean of a Gaussian process (kernel ridge regression) by preconditioned conjugate gradients.

The kernel matrix K [N, N] is written whole, once before the iterations; under a limit it is never
held: its producers move into the loop and are split there. The preconditioner is the Nystroem
approximation of K + noise by greedily selected points, applied by Woodbury's identity (Gardner et
al. 2018, "GPyTorch", take a pivoted Cholesky decomposition for it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gp_experiments.arms import MEMORY_ENVIRONMENT, Arm, Cap
from gp_experiments.sweep import Phase, Task

SUMMARY = "a GP's mean by preconditioned conjugate gradients, where K does not fit"


@dataclass(frozen=True)
class Config:
    """`limits` and `memory` (what stock is held to) hold for all data sets.

    `tolerance` is relative, of the residual's norm. `rank`: points of the preconditioner. `timeout`
    [s] of one process.
    """

    datasets: tuple[str, ...]
    limits: tuple[str, ...]
    memory: str
    lengthscale: float = 1.0
    noise: float = 0.01
    rank: int = 100
    iterations: int = 200
    tolerance: float = 1e-3
    seed: int = 111
    stock: bool = True
    cap: Cap = "resident"
    timeout: float | None = None


@dataclass(frozen=True)
class Run:
    """One solve; `limit` is the limit, or the memory that stock is held to."""

    dataset: str
    arm: str
    limit: str
    lengthscale: float
    noise: float
    rank: int
    iterations: int
    tolerance: float
    seed: int
    cap: Cap


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each data set, stock and each limit."""
    for dataset in config.datasets:
        arms = [("stock", config.memory)] if config.stock else []
        for arm, limit in [*arms, *(("limit", limit) for limit in config.limits)]:
            run = Run(
                dataset, arm, limit, config.lengthscale, config.noise, config.rank,
                config.iterations, config.tolerance, config.seed, config.cap,
            )  # fmt: skip
            phase = Phase("solve", f"{__name__}:solve", MEMORY_ENVIRONMENT, config.cap)
            yield Task(f"{dataset} {arm} {limit}", asdict(run), (phase,))


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


def solve(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Solve, predict the test rows, and measure; the process is held to the limit."""
    import gpflow
    import numpy as np
    import tensorflow as tf

    import tf_exla
    from gp_experiments import datasets, evaluate, models
    from gp_experiments.measuring import build, limit_device, time_calls, warm_up
    from tf_exla.byte_size import parse_bytes

    arguments.pop("work_dir")
    data_dir = Path(arguments.pop("data_dir"))
    run = Run(**arguments)
    limit_device(run.cap, run.limit)
    split = datasets.load(run.dataset, data_dir).split(run.seed)
    X, y = map(tf.constant, split.train)
    kernel = gpflow.kernels.Matern32(lengthscales=run.lengthscale)
    Z = models.select_inducing_points(
        split.train[0], run.rank, models.matern32(run.lengthscale),
        rng=np.random.default_rng(run.seed),
    )  # fmt: skip
    factor = tf.linalg.cholesky(kernel(Z) + 1e-6 * tf.eye(len(Z), dtype=tf.float64))
    B = tf.transpose(tf.linalg.triangular_solve(factor, kernel(Z, X)))  # [N, R]

    def mean(X_test: tf.Tensor, X: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(kernel(X_test, X), weights)[:, None]  # [N_test, 1]

    inputs = [X, y[:, 0], B]
    program, result = build(solver(kernel, run), inputs, run.arm, run.limit, False)
    X_test = tf.constant(split.test[0])
    predict, _ = build(mean, [X_test, X, y[:, 0]], run.arm, run.limit, False)
    arm.note(**result, num_train=len(split.train[0]), num_test=len(split.test[0]), dims=X.shape[1])
    warm_up()
    arm.hold_to(parse_bytes(run.limit))

    solved: list[Any] = []

    def call() -> Any:
        solved[:] = program(*inputs)
        return solved[:1]

    times = time_calls(call, arm, repeats=0)
    weights, iterations, residual = solved
    arm.note(
        **times,
        iterations=int(iterations),
        residual=float(residual),
        rmse=evaluate.rmse(split.test[1], predict(X_test, X, weights).numpy()),
    )
    measured = tf_exla.measured_peak(program, *inputs)
    return {"measured": int(measured), "measured_by": measured.method}
