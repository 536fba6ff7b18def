"""The rows of docs/gpu.md: the programs, what was measured on an H100, and what is estimated.

`python tests/gpu/rows.py` needs no GPU: it plans each program as for one, and prints estimated
beside measured milliseconds. With `--measure`, on a GPU, each is measured again: `--only PART`
chooses rows. Plans are made with the usual rates of the device, with `--rates then` as they were
planned when the rows were measured.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]
    os.environ.setdefault("TF_EXLA_RATES", "")  # the usual rates, whatever the user has measured

import tensorflow as tf

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import arguments
from gp_experiments.peers.with_tensorflow import _written
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.calls.request import gpu_options
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore.whole import WholeOps
from tf_exla.ir.graph import Graph
from tf_exla.ir.rates import CPU, Rates
from tf_exla.model.cost import compiled_seconds, graph_seconds
from tf_exla.model.gpu_rates import H100, H200, following, in_module
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph

REPEATS = 11


_BYTE = 1 / (0.93 * 3.35e12)
DERIVED = replace(
    H100, byte=_BYTE, **following(_BYTE), launch=2e-5, cluster=4e-5, iteration=240e-6, serial=1.0,
    product_8=1 / (0.4 * 67e12), product_4=1 / (0.4 * 67e12), product_tf32=1 / (0.5 * 495e12),
    pointwise_8=1 / (0.05 * 34e12), pointwise_4=1 / (0.08 * 67e12), compiled_pointwise=0.3,
    short_axis_element=8.5e-12, top_k_column=0.0, top_k_element=2.3e-11, top_k_start=240e-6,
)  # fmt: skip
"""The rates that plans were made with when the rows were measured: derived from peaks."""


@dataclass(frozen=True)
class Row:
    """A program; milliseconds as measured: stock's, XLA's, and of plans by their limit.

    `plans`: limit -> without XLA, and with compiled bodies of loops; None: not measured. `modules`:
    limit -> as one module, the fastest call. `rates`: of the GPU that it was measured on. `then`:
    of the plans that were measured. `wanted`: limit -> milliseconds to be reached.
    """

    name: str
    work: str
    sizes: Mapping[str, int]
    plans: Mapping[str, tuple[float | None, float | None]]
    stock: float | None = None
    xla: float | None = None
    dtype: str = "float64"
    metric: str = ""
    rates: Rates = H100
    then: Rates = DERIVED
    wanted: Mapping[str, float] = field(default_factory=dict)
    modules: Mapping[str, float] = field(default_factory=dict)


_NEIGHBOURS = {"n": 200_000, "d": 10, "queries": 1_000, "k": 10}
_ATTENTION = {"batch": 2, "heads": 8, "length": 4096, "d": 64}
# Of 2026-11-28, except for XLA, `compiled` and rows with other `rates` or `then`. Modules were
# compiled without trials of kernels, except for those of 1,000,000 and 2,049,280 points. Those of
# SGPR contained the Cholesky factorizations.
ROWS = (
    Row("SGPR 200,000 x 500", "sgpr", {"n": 200_000, "m": 500, "d": 3},
        {"4GB": (48.2, 48.2), "2GB": (58.2, None), "600MB": (75.0, 77.5)}, 47, 58.4,
        wanted={"2GB": 35, "600MB": 50}, modules={"4GB": 38.8, "2GB": 43.7, "600MB": 47.7}),
    Row("SGPR 2,049,280 x 1,000", "sgpr", {"n": 2_049_280, "m": 1_000, "d": 11},
        {"20GB": (1071, None)}, then=CPU, wanted={"20GB": 500}, modules={"20GB": 652}),
    Row("K v, n=20,000", "matvec", {"n": 20_000, "d": 3},
        {"4GB": (7.29, None), "1GB": (8.61, None)}, 20, 5.81, modules={"4GB": 8.68, "1GB": 2.47}),
    Row("K v, n=60,000, d=10", "matvec", {"n": 60_000, "d": 10}, {"1GB": (52.9, 54.5)},
        xla=50.7, modules={"1GB": 22.3}),
    Row("K v, n=60,000, d=10, float32", "matvec", {"n": 60_000, "d": 10}, {"1GB": (47.1, 26.2)},
        xla=20.3, dtype="float32", modules={"1GB": 23.2}),
    Row("K v, n=500,000, d=10", "matvec", {"n": 500_000, "d": 10}, {"4GB": (3018, None)},
        then=CPU),
    Row("K v, n=100,000, d=1 (H200)", "matvec", {"n": 100_000, "d": 1}, {"1GB": (127, None)},
        rates=H200, then=CPU),
    Row("K v, n=1,000,000, d=1", "matvec", {"n": 1_000_000, "d": 1}, {"1GB": (12_240, None)},
        wanted={"1GB": 5000}, modules={"1GB": 5313}),
    Row("K v, n=1,000,000, d=1, float32", "matvec", {"n": 1_000_000, "d": 1},
        {"1GB": (11_980, None)}, dtype="float32", wanted={"1GB": 2000}, modules={"1GB": 2503}),
    Row("v' K v and gradients, n=12,000", "quadratic", {"n": 12_000, "d": 3},
        {"1GB": (4.98, 4.73), "300MB": (5.88, 8.61)}, 16.8, 3.76, wanted={"1GB": 4},
        modules={"1GB": 1.97, "300MB": 3.67}),
    Row("neighbours L1", "knn", _NEIGHBOURS, {"1GB": (22.5, 11.7), "300MB": (31.3, 9.29)},
        47, 5.59, dtype="float32", metric="l1", wanted={"1GB": 5},
        modules={"1GB": 2.44, "300MB": 3.46}),
    Row("neighbours L2", "knn", _NEIGHBOURS, {"600MB": (8.14, 7.44), "100MB": (29.1, 22.9)},
        4.6, 4.22, dtype="float32", metric="l2", wanted={"100MB": 5},
        modules={"600MB": 1.98, "100MB": 6.17}),
    Row("neighbours L2, d=784", "knn", {"n": 60_000, "d": 784, "queries": 1_000, "k": 10},
        {"600MB": (3.30, 5.30), "250MB": (8.38, 18.9)}, 2.5, 2.2, dtype="float32", metric="l2",
        wanted={"250MB": 3}, modules={"600MB": 1.48, "250MB": 9.52}),
    Row("attention", "attention", _ATTENTION, {"600MB": (None, None)}, 3.9, 1.9,
        dtype="float32", wanted={"600MB": 2.5}, modules={"600MB": 2.44}),
    Row("attention and gradients", "attention-gradients", _ATTENTION, {"600MB": (17.1, None)},
        10.2, 5.2, dtype="float32", wanted={"600MB": 6}, modules={"600MB": 6.66}),
)  # fmt: skip


class RatedOps(TensorFlowOps):
    """TensorFlow's ops on a GPU, with rates that are given; float32 is multiplied as TF32."""

    def __init__(self, given: Rates) -> None:
        super().__init__(device="GPU")
        self.given = given

    def rates(self) -> Rates:
        return self.given

    def rounds_factors(self, dtype: str) -> bool:
        return dtype == "float32"


class RatedModule(WholeOps):
    """The same in a module that XLA compiles."""

    def __init__(self, given: Rates) -> None:
        super().__init__(device="GPU")
        self.given = in_module(given)

    def rates(self) -> Rates:
        return self.given

    def rounds_factors(self, dtype: str) -> bool:
        return dtype == "float32"


def made(row: Row) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Return the program of a row and its arguments."""
    case = Case(row.name, row.work, row.sizes, "1GB", row.sizes, "1GB", row.dtype, row.metric)
    function, given, _ = _written(case, arguments(case))
    return function, given


def captured(row: Row) -> Graph:
    """Return the graph of a row's program."""
    function, given = made(row)
    specs = [tf.TensorSpec(one.shape, one.dtype) for one in given]
    return capture(tf.function(function).get_concrete_function(*specs)).graph


@dataclass(frozen=True)
class Figure:
    """A figure of the table: milliseconds measured, and the graph that took them.

    `whole`: XLA compiled all of it, as it is; `module`: the plan.
    """

    row: str
    how: str
    measured: float | None
    graph: Graph
    whole: bool = False
    module: bool = False

    def estimated(self, rates: Rates) -> float:
        """Return the estimated milliseconds at some rates."""
        ops = RatedModule(rates) if self.module else RatedOps(rates)
        if self.whole:
            return 1e3 * compiled_seconds(ops, self.graph)
        return 1e3 * graph_seconds(ops, self.graph, promises=False)


def figures(row: Row, rates: Rates) -> Iterator[Figure]:
    """Yield what the table has of a row, planned at some rates."""
    graph = captured(row)
    if row.stock is not None:
        yield Figure(row.name, "stock", row.stock, graph)
    if row.xla is not None:
        yield Figure(row.name, "XLA", row.xla, graph, whole=True)
    for limit, measured in row.modules.items():
        module = RatedModule(row.rates)  # modules were planned with these
        options = gpu_options(Options(jit_compile=False))
        plan = optimize_graph(graph, module, limit=_bytes(limit), options=options)
        yield Figure(row.name, f"{limit}, module", measured, plan.graph, module=True)
    for limit, (plain, compiled) in row.plans.items():
        for known, jit_compile in ((plain, False), (compiled, True)):
            if jit_compile and known is None:
                continue
            options = gpu_options(Options(jit_compile=jit_compile))
            try:
                plan = optimize_graph(graph, RatedOps(rates), limit=_bytes(limit), options=options)
            except MemoryLimitError as error:
                print(f"{row.name}, {limit}: {error.smallest_limit:,} bytes at least")
                continue
            how = f"{limit}{', XLA' if jit_compile else ''}"
            yield Figure(row.name, how, known, plan.graph)


def _bytes(limit: str) -> int:
    from tf_exla.byte_size import parse_bytes

    return parse_bytes(limit)


def measure(row: Row) -> Iterator[tuple[str, float]]:
    """Measure a row on the device that is there: milliseconds, medians of complete calls."""
    import tf_exla

    function, given = made(row)
    tensors = [tf.constant(one) for one in given]
    ways: list[tuple[str, Callable[..., Any]]] = []
    if row.stock is not None:
        ways.append(("stock", tf.function(function)))
    if row.xla is not None:
        ways.append(("XLA", tf.function(function, jit_compile=True)))
    for limit in row.plans:
        for how, jit_compile in ((limit, None), (f"{limit}, module", True)):
            ways.append((how, tf_exla.optimize(function, limit, jit_compile=jit_compile)))
    for how, way in ways:
        try:
            yield how, _median(way, tensors)
        except (tf.errors.ResourceExhaustedError, MemoryLimitError) as error:
            print(f"{row.name}, {how}: {str(error).splitlines()[0]}")


def _median(way: Callable[..., Any], tensors: Sequence[Any]) -> float:
    way(*tensors)
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        way(*tensors)
        tf.test.experimental.sync_devices()
        spent.append(time.perf_counter() - start)
    return 1e3 * statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--rates", choices=("device", "then"), default="device")
    parser.add_argument("--measure", action="store_true")
    given = parser.parse_args()
    errors = []
    print("| work | limit | measured, ms | estimated, ms | ratio | wanted, ms |")
    print("|---|---|---:|---:|---:|---:|")
    for row in ROWS:
        if given.only not in row.name:
            continue
        again = dict(measure(row)) if given.measure else {}
        for one in figures(row, row.then if given.rates == "then" else row.rates):
            estimated = one.estimated(row.rates)
            measured = again.get(one.how, None if given.measure else one.measured)
            ratio = "" if not measured else f"{estimated / measured:.2f}"
            if measured:
                errors.append(abs(math.log(estimated / measured)))
            known = f"{measured:.4g}" if measured else ""
            wanted = row.wanted.get(one.how, "")
            cells = (one.row, one.how, known, f"{estimated:.3g}", ratio, wanted)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    if errors:
        print(f"\nmedian factor {math.exp(statistics.median(errors)):.2f} of {len(errors)} figures")


if __name__ == "__main__":
    main()
