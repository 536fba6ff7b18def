"""Training within a memory limit: a progress bar with the loss, and the best parameters on disk."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import gpflow
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy.optimize import OptimizeResult

from tf_exla.gpflow import Scipy
from tf_exla.report.report import MemoryReport


@dataclass(frozen=True)
class Training:
    """The result of a training run; `losses` [iterations] are negative evidence bounds, in nats."""

    losses: list[float]
    evaluations: int
    seconds: float
    message: str
    report: MemoryReport


class BestParameters:
    """The parameters of the lowest loss so far, in an npz file that is complete at any moment.

    It starts with the model's current parameters, so that it never holds those of an earlier run.
    """

    def __init__(self, model: gpflow.models.GPModel, path: Path) -> None:
        self.model = model
        self.path = path
        self.loss = np.inf
        self._save()

    def update(self, loss: float) -> None:
        """Save the model's parameters if `loss` is the lowest so far."""
        if loss < self.loss:
            self.loss = loss
            self._save()

    def _save(self) -> None:
        partial = self.path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, **gpflow.utilities.read_values(self.model))
        os.replace(partial, self.path)


def load_parameters(model: gpflow.models.GPModel, path: Path) -> None:
    """Assign to `model` the parameters that `BestParameters` saved for the same structure."""
    with np.load(path) as values:
        gpflow.utilities.multiple_assign(model, dict(values))


@contextmanager
def _remembered_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a test for whether Ctrl-C was pressed, even if a destructor swallowed the exception."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def handler(_: int, __: FrameType | None) -> None:
        pressed.set()
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)


def train(
    model: gpflow.models.GPModel,
    optimizer: Scipy,
    best: BestParameters,
    *,
    iterations: int,
    console: Console,
) -> Training:
    """Minimize the model's training loss by L-BFGS-B; the model ends with the best parameters.

    `best` is updated at each iteration, so that nothing is lost if training ends early, as by
    Ctrl-C. If a covariance matrix cannot be factorised, the loss is NaN, and L-BFGS-B steps back or
    ends.
    """
    variables = model.trainable_variables
    losses: list[float] = []
    start = time.perf_counter()
    progress = Progress(
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}  loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )

    def step(intermediate_result: OptimizeResult) -> None:
        losses.append(float(intermediate_result.fun))
        # A line search may have tried other points after the one that it accepted.
        optimizer.assign_tensors(
            variables, optimizer.unpack_tensors(variables, intermediate_result.x)
        )
        best.update(losses[-1])
        progress.update(task, completed=len(losses), loss=f"{losses[-1]:,.1f}")
        if interrupted():
            raise KeyboardInterrupt

    with progress, _remembered_interrupt() as interrupted:
        task = progress.add_task("training", total=iterations, loss="(tracing)")
        result = optimizer.minimize(
            model.training_loss_closure(),
            variables,
            callback=step,
            options={"maxiter": iterations},
        )
    load_parameters(model, best.path)
    seconds = time.perf_counter() - start
    return Training(losses, int(result.nfev), seconds, str(result.message), optimizer.report)
