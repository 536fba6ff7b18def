"""A kernel matrix times a vector as graphs, and as memory over the plan (Figures 4 and 5).

Any function has the same pictures: `tf_exla.explain(function, ...).draw(path)` and `.plot(path)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import PositiveFloat, PositiveInt

from gp_experiments.arms import Arm
from gp_experiments.ranges import Several, Size
from gp_experiments.sweep import Phase, Task

SUMMARY = "graphs before and after splitting, memory over the plan (Figures 4 and 5)"
Program = Literal["matvec", "sgpr"]


@dataclass(frozen=True)
class Config:
    """Nothing is computed: the sizes may be any. `timeout` [s] of one program."""

    programs: Several[Program] = ("matvec", "sgpr")
    size: PositiveInt = 100_000
    num_inducing: PositiveInt = 500
    limit: Size = "500MB"
    timeout: PositiveFloat | None = None


@dataclass(frozen=True)
class Run:
    """One program."""

    program: str
    size: int
    num_inducing: int
    limit: str


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each program."""
    for program in config.programs:
        run = Run(program, config.size, config.num_inducing, config.limit)
        label = f"{program} N={config.size:,} {config.limit}"
        yield Task(label, asdict(run), (Phase("report", f"{__name__}:report"),))


def report(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Return the memory report of the program."""
    run = Run(**{k: v for k, v in arguments.items() if k not in ("data_dir", "work_dir")})
    made = _matvec(run) if run.program == "matvec" else _sgpr(run)
    return {"report": made.to_dict()}


def _matvec(run: Run) -> Any:
    import gpflow
    import tensorflow as tf

    import tf_exla

    kernel = gpflow.kernels.SquaredExponential()

    def kernel_matvec(X: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(kernel(X), v)

    column = tf.TensorSpec([run.size, 1], tf.float64)
    return tf_exla.explain(kernel_matvec, column, column, limit=run.limit)


def _sgpr(run: Run) -> Any:
    import numpy as np
    import tensorflow as tf

    import tf_exla
    from gp_experiments.models import build_sgpr

    X = np.random.default_rng(0).standard_normal((run.size, 3))
    model = build_sgpr((X, X[:, :1]), X[: run.num_inducing].copy())

    def sgpr_loss_and_gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    return tf_exla.explain(sgpr_loss_and_gradients, limit=run.limit)
