"""Compare the programs of `programs.py` with their optimized versions; in a fresh process."""

from __future__ import annotations

import argparse
import gc
import os
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from api_programs import API_CASES
from found_programs import FOUND_CASES
from fresh_process import run_fresh
from image_programs import IMAGE_CASES
from programs import ALL as OWN
from programs import LARGE_CASES, Case

import tf_exla

ALL = {**OWN, **{case.name: case for case in (*FOUND_CASES, *API_CASES, *IMAGE_CASES)}}


def check_cases(names: list[str], repeat: int = 0) -> list[dict[str, Any]]:
    """Check cases by name; return the results of each."""
    return [check_case(ALL[name], repeat) for name in names]


def check_case(case: Case, repeat: int = 0, given: int | None = None) -> dict[str, Any]:
    """Optimize a case for its limit, compare the results, measure the peak.

    `repeat`: also time this many calls of both, and measure stock's peak. `given`: another limit.
    """
    function, arguments = case.make()
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak_before
    limit = int(before / case.factor) if given is None else given
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

    Numbers that are not floating must be equal. Floating numbers are compared relative to the
    largest of their tensor, or to a millionth of the largest of all: some gradients are zero except
    for rounding.
    """
    expected, found = (
        [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(tree)] for tree in (expected, found)
    )
    assert len(expected) == len(found)
    worst = 0.0
    floating = (np.abs(t) for t in expected if t.dtype.is_floating)
    largest = max((float(one[np.isfinite(one)].max(initial=0)) for one in floating), default=0.0)
    for old, new in zip(expected, found, strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
        a, b = old.numpy(), new.numpy()
        if not old.dtype.is_floating:
            worst = max(worst, 0.0 if np.array_equal(a, b) else np.inf)
        elif a.size:
            allowed = rtol if a.dtype == np.float64 else max(rtol, 1e-4)
            a, b = a.astype(np.float64), b.astype(np.float64)
            finite = np.isfinite(a)
            if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
                return np.inf
            a, b = a[finite], b[finite]
            scale = allowed * max(np.abs(a).max(initial=0), 1e-6 * largest)
            error = np.abs(a - b).max(initial=0)
            if not np.isfinite(error):
                return np.inf
            worst = max(worst, float(error / scale) if scale else float(error > 0) * np.inf)
    return worst


def limits_of(stock: Any, arguments: tuple[Any, ...], jit: bool | None) -> tuple[int, int]:
    """Return the smallest limit that works, and the peak without one."""
    unsplit = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak_before
    try:
        tf_exla.optimize(stock, 1, jit_compile=jit).report(*arguments)
    except tf_exla.MemoryLimitError as error:
        return error.smallest_limit, max(unsplit, error.smallest_limit)
    raise AssertionError("a limit of one byte holds")


def fastest(function: Any, arguments: Any, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def survey(names: list[str]) -> None:
    """Print the results or the exception of each case."""
    for name in names:
        try:
            found = check_case(ALL[name])
            fine = found["measured"] <= found["projected"] <= found["limit"] and found["worst"] <= 1
            said = ", ".join(f"{key} {value}" for key, value in found.items() if key != "name")
        except Exception:
            said, fine = traceback.format_exc(limit=-3), False
        print(f"{'ok  ' if fine else 'FAIL'} {name}: {said}", flush=True)


def time_cases(names: list[str]) -> list[dict[str, Any]]:
    """Check cases, and time both programs."""
    return check_cases(names, repeat=3)


# The text below the table: programs that hold more than their axes suggest.
BOUNDS = (
    "What bounds some others:",
    "",
    "- The gradient of a choice (`tf.cond`) whose branches use one [n, n] matrix. Inputs and",
    "  results of branches stay whole: four such matrices here, six in stock TensorFlow.",
    "- Cumulative sums along both axes of a matrix. Each sum needs its own axis whole.",
    "- Messages that show all of a large tensor (`tf.print(d, summarize=-1)`), or complex",
    "  numbers. The tensor stays whole. Other assertions and prints show a few elements, and",
    "  only these are computed for them.",
)


def write_table(path: Path, chosen: list[str]) -> None:
    """Measure cases, each in a fresh process, and write a Markdown table."""
    lines = [
        "# Programs under a limit",
        "",
        f"Generated by `python tests/programs.py --table {path}` on {_machine()}.",
        "",
        "- Each program runs in a fresh process, without oneDNN.",
        "- The limit is a fifth to a twentieth of stock TensorFlow's projected peak. It is larger",
        "  where a whole matrix must exist, as for a Cholesky decomposition.",
        "- A measured peak is the resident bytes plus the largest working set. The optimized",
        "  program was measured first.",
        "- Time is that of an optimized call over that of a stock call, the faster of three each.",
        "- An error of 1 is the largest error that the test of the program allows.",
        "",
        "| program | stock peak (measured) | limit | projected | measured | time | largest error |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in chosen:
        (found,) = run_fresh(time_cases, [name])
        sizes = (found[k] for k in ("stock_measured", "limit", "projected", "measured"))
        shown = " | ".join(f"{size / 1e6:.1f} MB" for size in sizes)
        time_ratio = found["seconds"] / found["stock_seconds"]
        lines.append(f"| {found['name']} | {shown} | {time_ratio:.2f} | {found['worst']:.1e} |")
        print(lines[-1], flush=True)
    lines += ["", *BOUNDS]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def _machine() -> str:
    return f"{os.cpu_count()} cores, TensorFlow {tf.__version__}"


def main(arguments: list[str]) -> None:
    """Write a table with `--table PATH`, else print. Other arguments choose cases by name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    large = {case.name for case in LARGE_CASES}
    chosen = [
        name
        for name in ALL
        if any(part in name for part in options.names) or (not options.names and name not in large)
    ]
    if options.table is not None:
        write_table(options.table, chosen)
    else:
        survey(chosen)
