"""Check GPflow's models, likelihoods and kernels: numbers, and the limit that is held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from covered.gpflow_cases import CALLS, PARTS
from covered.op_check import SLACK

import tf_exla

DATA = Path(__file__).with_name("gpflow.json")
TOLERANCE = 1e-6
"""Of the largest number: sums of float64 in another order, through a Cholesky factor."""


def check(names: list[str]) -> list[dict[str, Any]]:
    """Run in a fresh process: a row for each call of the named cases."""
    tf.get_logger().setLevel("ERROR")
    rows = []
    for name in names:
        part, _, which = name.partition(" ")
        makers, calls = PARTS[part]
        rows += [_row(name, makers[which], call) for call in calls]
    return rows


def _row(name: str, make: Any, call: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "call": call}

    def function() -> Any:
        model, data = make()
        if call == "posterior":  # what it computes first is not for a tf.function
            model = model.posterior()

        @tf.function
        def called() -> Any:
            return CALLS[call](model, data)

        return called

    def run(fn: Any) -> list[np.ndarray]:
        tf.random.set_seed(3)
        return [np.asarray(tf.convert_to_tensor(one)) for one in tf.nest.flatten(fn())]

    try:
        want = run(function())
    except Exception as error:  # stock's own
        return {**row, "stock": _brief(error)}
    if not all(np.isfinite(one).all() for one in want):
        return {**row, "stock": "its numbers are not finite"}
    try:
        tf_exla.optimize(function(), 1, strict=True).report()
        return {**row, "failure": "one byte was enough"}
    except tf_exla.MemoryLimitError as error:
        smallest, before = error.smallest_limit, error.projected_peak
    except Exception as error:
        return {**row, "failure": _brief(error)}
    limit = max(smallest, before // 2)
    row |= {"before": before, "smallest": smallest, "limit": limit}
    try:
        optimized = tf_exla.optimize(function(), limit, strict=True)
        got = run(optimized)
        report = optimized.report()
        row["projected"], row["loops"] = report.projected_peak, len(report.loops)
        row["measured"] = int(tf_exla.measured_peak(optimized, fresh=False))
    except Exception as error:
        return {**row, "failure": _brief(error)}
    row["error"] = float(f"{_error(want, got):.1e}")
    if not row["error"] < TOLERANCE:
        row["failure"] = f"the numbers differ by {row['error']:.1e} of the largest"
    elif row["projected"] > limit or row["measured"] > row["projected"] + SLACK:
        row["failure"] = f"measured {row['measured']}, projected {row['projected']}"
    return row


def _error(want: list[np.ndarray], got: list[np.ndarray]) -> float:
    """Return the largest difference beside the largest number of a result.

    Gradients that vanish, as those of a kernel where q is the prior, are rounding alone: they count
    beside a millionth of the largest of all.
    """
    largest = [float(np.max(np.abs(one), initial=0.0)) for one in want]
    floor = 1e-6 * max(largest) + 1e-300
    return max(
        float(np.max(np.abs(old - new), initial=0.0)) / max(scale, floor)
        for old, new, scale in zip(want, got, largest, strict=True)
    )


def _brief(error: Exception) -> str:
    last = str(error).strip().splitlines()[-1:] or [""]
    kind = f"{type(error).__name__}: "
    return kind + last[0].strip().removeprefix(kind)[:200]
