"""Programs of any front end, stock or under a limit, and the time of their calls."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from gp_experiments.arms import Arm

STOCK, LIMIT = "stock", "limit"
Frontend = Literal["tensorflow", "jax"]
FRONTENDS = {"tensorflow": "TensorFlow", "jax": "JAX"}


class Program(NamedTuple):
    """A program as a front end runs it: `call` takes arrays and returns the arrays of its results.

    `arguments`: those that it was built for. `facts`: values to record, such as projected bytes.
    `measure` returns the peak of `call(*arguments)` in bytes, and how it was measured.
    """

    call: Callable[..., Sequence[Any]]
    arguments: Sequence[Any]
    facts: dict[str, Any]
    measure: Callable[[], tuple[int, str]]


class Trainable(NamedTuple):
    """A model whose `parameters` [P] are trained.

    `evaluate` returns loss [] and gradient [P] at parameters [P]. `predict` returns mean and
    variance [N_test, 1] of the test rows. `measure` returns the peak of `evaluate` as in `Program`.
    """

    parameters: Any
    evaluate: Callable[[Any], tuple[Any, Any]]
    predict: Callable[[Any], tuple[Any, Any]]
    facts: dict[str, Any]
    measure: Callable[[Any], tuple[int, str]]


def programs(frontend: str) -> Any:
    """Return the module of a front end's programs: `with_tensorflow` or `with_jax`."""
    return importlib.import_module(f"gp_experiments.with_{frontend}")


def measuring(frontend: str) -> Any:
    """Return the module that builds a front end's programs and measures them."""
    return importlib.import_module(f"gp_experiments.measuring_{frontend}")


def time_calls(
    call: Callable[[], Iterable[Any]], arm: Arm, *, repeats: int, patience: float = 20.0
) -> dict[str, Any]:
    """Return the seconds of `repeats` calls after a first one, or of fewer if they take long.

    `call` returns arrays. `patience` [s]: no further call starts once this is spent. If the first
    call alone takes as long, it is counted. `sum` and `norm` of the first call's floating results
    serve to compare arms.
    """
    seconds: list[float] = []
    first: list[Any] = []
    begin = time.perf_counter()
    for number in range(repeats + 1):
        start = time.perf_counter()
        results = [np.asarray(one) for one in call()]
        seconds.append(time.perf_counter() - start)
        first = first or [r.astype(np.float64) for r in results if r.dtype.kind == "f"]
        arm.progress(number + 1, repeats + 1, f"{seconds[-1]:.2f} s")
        if time.perf_counter() - begin > patience:
            break
    return {
        "call_seconds": seconds[1:] or seconds,
        "sum": float(sum(r.sum() for r in first)),
        "norm": float(np.sqrt(sum(np.square(r).sum() for r in first))),
    }
