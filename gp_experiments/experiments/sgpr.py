"""Sparse GP regression (Titsias 2009) as in the paper's Table 2 and Figure 3: stock against limit.

GPflow's SGPR, or the same written in JAX: Matern-3/2 with a lengthscale per input, constant mean,
noise variance 0.1, float64, L-BFGS-B; inducing points by greedy conditional variance selection.
Prediction runs under the limit too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.optimize
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from gp_experiments import calls, datasets, evaluate, models
from gp_experiments.arms import Arm, Cap
from gp_experiments.calls import Frontend
from gp_experiments.configuration import ConfigError
from gp_experiments.experiments import runs
from gp_experiments.ranges import Limits, Several, Sizes
from gp_experiments.sweep import Phase, Task
from tf_exla.byte_size import parse_bytes

SUMMARY = "SGPR: loss, RMSE and NLPD in training for growing M (Table 2, Figure 3)"
LENGTHSCALE = 1.0  # where training starts, of standardised inputs


@dataclass(frozen=True)
class Config:
    """`limits` holds a limit per data set. Every arm is held to it, beside its process's baseline.

    `metrics_every`: evaluations between two scores on the test rows; 0: at the end only.
    `candidates`: random rows that inducing points are selected from. `fold`: a published split;
    none is a random one of 67 % to 33 %, by the seed. `timeout` [s] of one run.
    """

    datasets: Several[str]
    limits: Limits
    num_inducing: Sizes
    frontend: Frontend = "tensorflow"
    seeds: Several[NonNegativeInt] = (111, 222, 333)
    arms: Several[Literal["stock", "limit"]] = ("stock", "limit")
    iterations: PositiveInt = 1000
    metrics_every: NonNegativeInt = 50
    train_inducing: bool = False
    candidates: PositiveInt = 100_000
    fold: NonNegativeInt | None = None
    jit_compile: bool = False
    cap: Cap = "resident"
    measure: bool = True
    timeout: PositiveFloat | None = None


@dataclass(frozen=True)
class Run:
    """One training run."""

    dataset: str
    limit: str
    num_inducing: int
    seed: int
    arm: str
    frontend: str
    iterations: int
    metrics_every: int
    train_inducing: bool
    candidates: int
    fold: int | None
    jit_compile: bool
    cap: Cap
    measure: bool


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each data set, seed, number of inducing points and arm."""
    if len(config.limits) not in (1, len(config.datasets)):
        raise ConfigError(f"{len(config.datasets)} data sets need limits for each, or one for all")
    if config.candidates < max(config.num_inducing):
        raise ConfigError(
            f"candidates {config.candidates} are fewer than num_inducing {max(config.num_inducing)}"
        )
    limits = config.limits * (len(config.datasets) if len(config.limits) == 1 else 1)
    for dataset, limit in zip(config.datasets, limits, strict=True):
        for seed in config.seeds:
            for num_inducing in config.num_inducing:
                for arm in config.arms:
                    run = Run(
                        dataset, limit, num_inducing, seed, arm, config.frontend, config.iterations,
                        config.metrics_every, config.train_inducing, config.candidates, config.fold,
                        config.jit_compile and arm == "limit", config.cap, config.measure,
                    )  # fmt: skip
                    phase = Phase("training", f"{__name__}:train", cap=config.cap)
                    label = (
                        f"{dataset} M={num_inducing} seed {seed} {arm}{runs.of(config.frontend)}"
                    )
                    data = (datasets.check_name_and_file, (dataset, config.fold))
                    yield Task(label, asdict(run), (phase,), data)


def train(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Train and score one model."""
    data_dir, work_dir = Path(arguments.pop("data_dir")), Path(arguments.pop("work_dir"))
    run = Run(**arguments)

    tools = calls.measuring(run.frontend)
    limit = parse_bytes(run.limit)
    tools.limit_device(run.cap, limit)
    dataset = datasets.load(run.dataset, data_dir)
    split = dataset.split(run.seed) if run.fold is None else dataset.published_split(run.fold)
    Z = inducing_points(split.train[0], run, work_dir)
    model: calls.Trainable = calls.programs(run.frontend).sgpr(run, split, Z, LENGTHSCALE)
    y_test = split.test[1]
    result: dict[str, Any] = {
        "limit": limit, "num_train": len(split.train[0]), "num_test": len(y_test),
        "dims": split.test[0].shape[1], "num_inducing": len(Z), **model.facts,
    }  # fmt: skip
    arm.note(**result)
    # What every program needs is there: from now on each arm has the limit beside it.
    tools.warm_up()
    arm.hold_to(limit)

    def score(x: Any) -> dict[str, float]:
        mean, variance = model.predict(x)
        return {
            "rmse": evaluate.rmse(y_test, mean), "nlpd": evaluate.nlpd(y_test, mean, variance)
        }  # fmt: skip

    seconds: list[float] = []
    losses: list[float] = []

    def evaluated(x: Any) -> tuple[float, Any]:
        start = time.perf_counter()
        loss, gradient = model.evaluate(x)
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
        count = len(losses)
        if run.metrics_every and count % run.metrics_every == 0:
            arm.step(evaluation=count, loss=losses[-1], seconds=sum(seconds), **score(x))
        # An iteration of L-BFGS-B takes little more than one evaluation.
        arm.progress(min(count, run.iterations), run.iterations, f"loss {losses[-1]:,.1f}")
        return losses[-1], gradient

    found = scipy.optimize.minimize(
        evaluated,
        model.parameters,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": run.iterations},
    )
    final = score(found.x)
    arm.step(evaluation=len(losses), loss=float(found.fun), seconds=sum(seconds), **final)
    result |= final | {
        "loss": float(found.fun), "evaluations": len(losses), "iterations": int(found.nit),
        "message": str(found.message), "train_seconds": sum(seconds),
        "evaluation_seconds": float(np.median(seconds[1:] or seconds)),
    }  # fmt: skip
    arm.check()
    if run.measure:
        measured, method = model.measure(found.x)
        result |= {"measured": measured, "measured_by": method}
    return result


def inducing_points(X: Any, run: Run, work_dir: Path) -> Any:
    """Return Z [M, D], selected greedily. A larger selection, if there is one, begins with them."""
    fold = "random" if run.fold is None else run.fold
    name = f"inducing-{run.dataset}-{fold}-{run.seed}-{run.candidates}.npy"
    path = work_dir / name
    if path.exists() and len(Z := np.load(path)) >= run.num_inducing:
        return Z[: run.num_inducing]
    Z = models.select_inducing_points(
        X,
        run.num_inducing,
        models.matern32(LENGTHSCALE),
        rng=np.random.default_rng(run.seed),
        subset=run.candidates,
    )
    work_dir.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npy")
    np.save(partial, Z)
    partial.replace(path)
    return Z
