"""Estimated against measured times: how far the cost model is off, and which rates matter.

`python tests/estimates.py [--rate launch=1e-6 ...] [name ...]` plans the programs whose names
contain one of `name`, at the limit of the table and at their smallest limit. It measures a call of
each plan and of stock TensorFlow, and prints both ratios. Then it prints the mean error, as a
factor, with each rate halved and doubled. `--rate` changes a rate for these estimates, not for the
plans, which are those of the rates in use.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from programs_check import ALL, fastest

import tf_exla
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.planning import planner
from tf_exla.ir.rates import Rates
from tf_exla.model.cost import graph_seconds
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.pipeline.plan import Plan

CALLS = 5
LARGEST = 3.0
"""Factors of errors beyond this count as this: single programs must not decide."""
RATES = (
    "byte", "cached_byte", "launch", "iteration", "cluster", "sync", "written_byte", "run",
    "product_4", "product_8", "product_byte", "pointwise_4", "pointwise_8", "compiled_pointwise",
)  # fmt: skip


class WithRates(TensorFlowOps):
    """TensorFlow's ops with given rates."""

    def __init__(self, rates: Rates) -> None:
        super().__init__()
        self._rates = rates

    def rates(self) -> Rates:
        return self._rates


class Measured(NamedTuple):
    """A plan, and the time of a call relative to stock TensorFlow."""

    name: str
    plan: Plan
    ratio: float


def measured(name: str) -> Iterator[Measured]:
    """Yield the plans of a program at its limit and at its smallest."""
    function, arguments = ALL[name].make()
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak_before
    limits = [int(before / ALL[name].factor)]
    try:
        tf_exla.explain(stock, *arguments, limit=1)
    except tf_exla.MemoryLimitError as error:
        limits.append(error.smallest_limit)
    seconds = fastest(stock, arguments, CALLS)
    for limit in dict.fromkeys(limits):
        optimized = tf_exla.optimize(stock, limit)
        plans = _plans_of(lambda: optimized.report(*arguments))  # noqa: B023
        yield Measured(name, plans[-1], fastest(optimized, arguments, CALLS) / seconds)


def _plans_of(call: Callable[[], Any]) -> Sequence[Plan]:
    """Return the plans that are made during a call."""
    made: list[Plan] = []
    real = planner.optimize_graph
    planner.optimize_graph = lambda *args, **kwargs: made.append(real(*args, **kwargs)) or made[-1]
    try:
        call()
    finally:
        planner.optimize_graph = real
    return made


def estimated(one: Measured, rates: Rates) -> float:
    """Estimate the time of a plan relative to that of the original program."""
    ops = ContractingOps(WithRates(rates))
    after, before = one.plan.graph, one.plan.original
    return graph_seconds(ops, after, promises=False) / max(graph_seconds(ops, before), 1e-9)


def error(found: Sequence[Measured], rates: Rates) -> float:
    """Return the geometric mean of the factors by which estimates are off."""
    logs = (abs(math.log(estimated(one, rates) / one.ratio)) for one in found)
    return math.exp(sum(min(log, math.log(LARGEST)) for log in logs) / len(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", action="append", default=[], metavar="NAME=SECONDS")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    changed = {
        name: float(value) for name, _, value in (one.partition("=") for one in options.rate)
    }
    usual = TensorFlowOps().rates()
    rates = dataclasses.replace(usual, **changed)
    found: list[Measured] = []
    print("| program | limit | measured | estimated |\n|---|---:|---:|---:|")
    for name in ALL:
        if options.names and not any(part in name for part in options.names):
            continue
        for one in measured(name):
            found.append(one)
            limit, guess = one.plan.limit / 1e6, estimated(one, rates)
            print(f"| {name} | {limit:.1f} MB | {one.ratio:.2f} | {guess:.2f} |", flush=True)
    print(f"\nerror {error(found, rates):.2f}, with the rates in use {error(found, usual):.2f}\n")
    print("| rate | value | error if halved | error if doubled |\n|---|---:|---:|---:|")
    for name in RATES:
        value = getattr(rates, name)
        less, more = (
            error(found, dataclasses.replace(rates, **{name: value * f})) for f in (0.5, 2)
        )
        print(f"| {name} | {value:.2g} | {less:.2f} | {more:.2f} |")


if __name__ == "__main__":
    main()
