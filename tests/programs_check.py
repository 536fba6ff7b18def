"""Run the programs of `programs.py` against their optimized selves; in a fresh process."""

from __future__ import annotations

import gc
import time
import traceback
from typing import Any

import numpy as np
import tensorflow as tf
from programs import ALL, Case

import tf_exla


def check_cases(names: list[str], repeat: int = 0) -> list[dict[str, Any]]:
    """Check cases by name; return what was found for each."""
    return [check_case(ALL[name], repeat) for name in names]


def check_case(case: Case, repeat: int = 0) -> dict[str, Any]:
    """Optimize a case below its limit, compare the results, measure the peak.

    `repeat`: also time so many calls of both, and measure the stock's peak.
    """
    function, arguments = case.make()
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak_before
    limit = int(before / case.factor)
    found: dict[str, Any] = {"name": case.name, "before": before, "limit": limit}
    optimized = tf_exla.optimize(stock, limit)
    report = optimized.report(*arguments)
    found["plan_seconds"] = report.rewrite_seconds
    found["projected"] = report.projected_peak
    found["measured"] = int(tf_exla.measured_peak(optimized, *arguments))
    found["loops"] = len(report.loops)
    found["worst"] = difference(stock(*arguments), optimized(*arguments), case.rtol)
    if repeat:
        found["stock_measured"] = int(tf_exla.measured_peak(stock, *arguments))
        found["stock_seconds"] = fastest(stock, arguments, repeat)
        found["seconds"] = fastest(optimized, arguments, repeat)
    del stock, optimized
    gc.collect()
    return found


def difference(expected: Any, found: Any, rtol: float) -> float:
    """Return the largest difference in units of what is allowed; above 1 is too large.

    Integers must be equal. Real numbers are compared with the scale of their tensor, or with a
    millionth of the largest one: some gradients are zero but for rounding.
    """
    expected, found = (
        [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(tree)] for tree in (expected, found)
    )
    assert len(expected) == len(found)
    worst = 0.0
    largest = max((float(np.abs(t).max()) for t in expected if t.dtype.is_floating), default=0.0)
    for old, new in zip(expected, found, strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
        a, b = old.numpy(), new.numpy()
        if not old.dtype.is_floating:
            worst = max(worst, 0.0 if np.array_equal(a, b) else np.inf)
        elif a.size:
            scale = max(np.abs(a).max(), 1e-6 * largest) * (rtol if a.dtype == np.float64 else max(rtol, 1e-4))
            error = np.abs(a - b).max()
            worst = max(worst, float(error / scale) if scale else float(error > 0) * np.inf)
            assert np.isfinite(b).all() == np.isfinite(a).all()
    return worst


def fastest(function: Any, arguments: Any, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def survey(names: list[str]) -> None:
    """Print what happens to each case, whatever it is."""
    for name in names:
        start = time.perf_counter()
        try:
            f = check_case(ALL[name])
            said = (
                f"{f['before']/1e6:.0f} -> limit {f['limit']/1e6:.1f} projected "
                f"{f['projected']/1e6:.1f} measured {f['measured']/1e6:.1f} MB; loops {f['loops']}, "
                f"worst {f['worst']:.2g}, plan {f['plan_seconds']:.1f} s"
            )
            ok = f["measured"] <= f["projected"] <= f["limit"] and f["worst"] <= 1
        except Exception as error:
            said, ok = f"{type(error).__name__}: {str(error)[:700]}", False
            if not isinstance(error, tf_exla.MemoryLimitError):
                said += traceback.format_exc()[-1500:]
        spent = time.perf_counter() - start
        print(f"{'ok  ' if ok else 'FAIL'} {name} [{spent:.1f} s]: {said}", flush=True)


def main(arguments: list[str]) -> None:
    chosen = [n for n in ALL if not arguments or any(a in n for a in arguments)]
    survey(chosen)
