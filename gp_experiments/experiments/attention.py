"""Transformer layers over long sequences: forward, and a step of training.

Keras's MultiHeadAttention and Dense layers, float32, each with a LayerNormalization behind it; or
the same written in JAX. Stock holds the attention weights [batch, heads, length, length].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt

from gp_experiments import calls
from gp_experiments.arms import Arm
from gp_experiments.configuration import ConfigError
from gp_experiments.experiments import runs
from gp_experiments.ranges import Limits, Several, Sizes
from gp_experiments.sweep import Task

SUMMARY = "attention over long sequences: forward, and the train step"
Mode = Literal["forward", "train"]


@dataclass(frozen=True, kw_only=True)
class Config(runs.Settings):
    """Sizes of the layers, and lengths of the sequences."""

    lengths: Sizes
    limits: Limits
    modes: Several[Mode] = ("forward", "train")
    layers: PositiveInt = 2
    d_model: PositiveInt = 512
    heads: PositiveInt = 8
    dff: PositiveInt = 2048
    batch: PositiveInt = 64


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One program."""

    mode: str
    length: int
    layers: int
    d_model: int
    heads: int
    dff: int
    batch: int


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each mode, length, stock and each limit."""
    if config.d_model % config.heads:
        raise ConfigError(f"d_model {config.d_model} is no multiple of heads {config.heads}")
    for mode in config.modes:
        for length in config.lengths:
            for arm in runs.arms(config, config.limits):
                run = Run(
                    mode=mode, length=length, layers=config.layers, d_model=config.d_model,
                    heads=config.heads, dff=config.dff, batch=config.batch, **arm,
                )  # fmt: skip
                yield runs.task(__name__, f"{mode} length {length:,}", run)


def program(run: Run) -> runs.Written:
    """Return the layers, or their train step, and x (and targets) [batch, length, d_model]."""
    rng = np.random.default_rng(0)
    shape = (run.batch, run.length, run.d_model)
    made = [rng.standard_normal(shape, np.float32) for _ in range(2)]
    return calls.programs(run.frontend).attention(run), made[: 1 if run.mode == "forward" else 2]


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit."""
    run, _ = runs.parse(Run, arguments)
    return runs.peak_of(run, lambda: program(run), arm)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in the usual settings of the library."""
    run, _ = runs.parse(Run, arguments)
    return runs.time_of(run, lambda: program(run), arm)
