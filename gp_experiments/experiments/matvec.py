"""A kernel matrix times a vector as in the paper's Figure 2: peak and time against N, per limit.

GPflow's SquaredExponential on inputs [N, 1], float64. Stock TensorFlow holds the [N, N] matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gp_experiments.arms import SPEED_ENVIRONMENT, Arm, Cap
from gp_experiments.sweep import Phase, Task

SUMMARY = "kernel matrix times vector: peak and time against N, per limit (Figure 2)"


@dataclass(frozen=True)
class Config:
    """`memory` is what stock is held to. `rows`: how many of the N rows of the result, at most.

    `repeats`: calls that are timed, fewer where a call takes long. `timeout` [s] of one process.
    """

    sizes: tuple[int, ...]
    limits: tuple[str, ...]
    memory: str
    rows: int | None = None
    stock: bool = True
    repeats: int = 3
    cap: Cap = "resident"
    jit_compile: bool = False
    timeout: float | None = None


@dataclass(frozen=True)
class Run:
    """One program; `limit` is the limit, or the memory that stock is held to."""

    size: int
    rows: int
    arm: str
    limit: str
    repeats: int
    cap: Cap
    jit_compile: bool


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each N, stock and each limit."""
    for size in config.sizes:
        rows = min(size, config.rows or size)
        arms = [("stock", config.memory)] if config.stock else []
        for arm, limit in [*arms, *(("limit", limit) for limit in config.limits)]:
            jit = config.jit_compile and arm == "limit"
            run = Run(size, rows, arm, limit, config.repeats, config.cap, jit)
            yield Task(
                f"N={size:,} {arm} {limit}",
                asdict(run),
                (
                    Phase("peak", f"{__name__}:peak", cap=config.cap),
                    Phase("time", f"{__name__}:time", SPEED_ENVIRONMENT),
                ),
            )


def program(run: Run) -> tuple[Any, list[Any]]:
    """Return K(X[:rows], X) v as a function, with X [N, 1], v [N, 1]."""
    import gpflow
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((2, run.size, 1))
    kernel = gpflow.kernels.SquaredExponential()

    def matvec(X: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        K = kernel(X) if run.rows == run.size else kernel(X[: run.rows], X)
        return tf.matmul(K, v)  # [rows, 1]

    return matvec, [tf.constant(X), tf.constant(v)]


def _run(arguments: dict[str, Any]) -> Run:
    return Run(**{k: v for k, v in arguments.items() if k not in ("data_dir", "work_dir")})


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit."""
    from gp_experiments.measuring import limit_device, peak_of

    run = _run(arguments)
    limit_device(run.cap, run.limit)
    return peak_of(*program(run), run.arm, run.limit, arm, jit_compile=run.jit_compile)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in TensorFlow's usual settings."""
    from gp_experiments.measuring import limit_device, time_of

    run = _run(arguments)
    limit_device(run.cap, run.limit)
    return time_of(
        *program(run), run.arm, run.limit, arm, repeats=run.repeats, jit_compile=run.jit_compile
    )
