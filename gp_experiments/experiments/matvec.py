"""A kernel matrix times a vector as in the paper's Figure 2: peak and time against N, per limit.

The squared exponential (GPflow's, or written in JAX) on inputs [N, 1], float64. Stock holds the
[N, N] matrix.

Where all rows of the product take too long, a slice of them is computed, K(X[:rows], X) v. All rows
are planned then all the same, and their time is extrapolated from that of a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from pydantic import PositiveInt

from gp_experiments import calls
from gp_experiments.arms import Arm
from gp_experiments.configuration import ConfigError
from gp_experiments.experiments import runs
from gp_experiments.ranges import Limits
from gp_experiments.sweep import Task

SUMMARY = "kernel matrix times vector: peak and time against N, per limit (Figure 2)"


@dataclass(frozen=True, kw_only=True)
class Config(runs.Settings):
    """`sizes`: N of which all rows are computed; `sliced`: N of which `rows` rows are."""

    sizes: tuple[PositiveInt, ...]
    sliced: tuple[PositiveInt, ...] = ()
    rows: PositiveInt = 4000
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One program: the first `rows` rows of the product."""

    size: int
    rows: int


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each N, stock and each limit."""
    if not (config.sizes or config.sliced):
        raise ConfigError("sizes and sliced are both empty: there is nothing to run")
    if config.sliced and min(config.sliced) <= config.rows:
        raise ConfigError(f"sliced: {min(config.sliced)} has no slice of {config.rows} rows")
    wanted = [(size, size) for size in config.sizes]
    wanted += [(size, config.rows) for size in config.sliced]
    for size, rows in wanted:
        label = f"N={size:,}" if rows == size else f"N={size:,}, {rows:,} rows,"
        for arm in runs.arms(config, config.limits):
            yield runs.task(__name__, label, Run(size=size, rows=rows, **arm))


def program(run: Run) -> runs.Written:
    """Return (X [N, 1], v [N, 1]) -> K(X[:rows], X) v, and its arguments."""
    X, v = np.random.default_rng(0).standard_normal((2, run.size, 1))
    return calls.programs(run.frontend).matvec(run), [X, v]


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit; of a slice, project that of all rows as well."""
    run, _ = runs.parse(Run, arguments)
    if run.rows < run.size:
        arm.note(all_rows=planned(run))
    return runs.peak_of(run, lambda: program(run), arm)


def planned(run: Run) -> dict[str, Any]:
    """Plan the product of all rows, without running it; bytes and flops."""
    whole = calls.programs(run.frontend).matvec(dataclasses.replace(run, rows=run.size))
    column = np.broadcast_to(np.float64(0), (run.size, 1))
    planned: dict[str, Any] = calls.measuring(run.frontend).projected(
        whole, [column, column], run.arm, run.limit, jit_compile=run.jit_compile
    )
    return planned


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in the usual settings of the library.

    Of a slice also `row_seconds`, and from it `extrapolated_seconds` of all rows. A slice has no
    symmetry to use: all rows together should take less than that.
    """
    run, _ = runs.parse(Run, arguments)
    result = runs.time_of(run, lambda: program(run), arm)
    if run.rows < run.size:
        row = median(result["call_seconds"]) / run.rows
        result |= {"row_seconds": row, "extrapolated_seconds": row * run.size}
    return result
