"""The time that programs take to plan, and their plans.

`python tests/planning.py [--json PATH] [name ...]` plans the programs of the tables whose names
contain one of `name`, at three limits. It prints nodes and seconds of the planning thread, sorted
by seconds per node. `--golden` writes the plans that `test_golden_plans.py` expects.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_EXLA_RATES", "")  # no measured rates; set before tf_exla reads it

import control_flow_programs
import list_programs
import row_programs
import row_read_programs
import tensorflow as tf
import test_repeated
import tie_programs
from programs import LARGE_CASES, normal, with_gradients
from programs_check import ALL
from random_programs import random_program

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.traverse import walk
from tf_exla.model import eigen
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph

Made = tuple[Callable[..., Any], Sequence[Any]]

CACHE = 32 << 20
OPTIONS = Options(chunk_bytes=CACHE // 2, body_bytes=CACHE * 3 // 4, cores=2)
"""Options of one machine, so that plans are the same on all."""
FRACTIONS = (0.5, 0.1)
"""Limits as fractions of the stock peak; the smallest limit is the third."""
OPS = TensorFlowOps(threads=2)
eigen.L1, eigen.L2 = 1 << 17, 1 << 22  # for the scratch memory of kernels
GOLDEN = Path(__file__).with_name("golden_plans.json")


def sinkhorn_divergence() -> Made:
    """Three transport problems of five steps each, unrolled."""

    def cost(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        c = tf.reduce_sum(tf.square(x[:, None] - y[None]), -1)
        g = tf.zeros_like(y[:, 0])
        for _ in range(5):
            f = -tf.reduce_logsumexp(g[None, :] - c, 1)
            g = -tf.reduce_logsumexp(f[:, None] - c, 0)
        return tf.reduce_mean(f) + tf.reduce_mean(g)

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return cost(x, y) - (cost(x, x) + cost(y, y)) / 2

    return with_gradients(function), (normal(2003, 3), normal(1801, 3, seed=1))


def sinkhorn_products() -> Made:
    """As above, with distances by products and without gradients."""

    def cost(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        c = test_repeated.rbf(x, y)
        g = tf.zeros_like(y[:, 0])
        for _ in range(5):
            f = -tf.reduce_logsumexp(g[None, :] - c, 1)
            g = -tf.reduce_logsumexp(f[:, None] - c, 0)
        return tf.reduce_mean(f) + tf.reduce_mean(g)

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return cost(x, y) - (cost(x, x) + cost(y, y)) / 2

    return function, (normal(2003, 3), normal(1801, 3, seed=1))


def _random(seed: int) -> Made:
    program = random_program(seed)
    return program.function, program.arguments


def _tied(name: str) -> Made:
    points = tie_programs.points
    dtype = "float64"
    return tie_programs.PROGRAMS[name], (points(name, 503, 0, dtype), points(name, 401, 1, dtype))


def programs() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Yield the programs of the tables."""
    large = {case.name for case in LARGE_CASES}
    yield from ((name, case.make) for name, case in ALL.items() if name not in large)
    yield from ((case.name, case.make) for case in row_programs.ROW_CASES)
    yield from (
        (f"control flow: {name}", make)
        for name, (make, *_) in control_flow_programs.PROGRAMS.items()
    )
    yield from ((f"lists: {name}", make) for name, make in list_programs.PROGRAMS.items())
    yield from ((f"rows: {name}", make) for name, make in row_read_programs.PROGRAMS.items())
    for name in tie_programs.PROGRAMS:
        yield f"ties: {name}", lambda name=name: _tied(name)
    for seed in range(30):
        yield f"random {seed}", lambda seed=seed: _random(seed)
    for name, make in test_repeated.PARTS.items():
        for times in (1, 2, 5):
            yield f"{name} x {times}", lambda make=make, times=times: make(times)
    yield "Sinkhorn divergence and gradients", sinkhorn_divergence
    yield "Sinkhorn divergence", sinkhorn_products


def captured(made: Made) -> Graph:
    function, arguments = made
    stock = tf.function(function, autograph=False)
    return capture(stock.get_concrete_function(*arguments)).graph


def planned(graph: Graph, limit: int) -> dict[str, Any]:
    """Plan a graph; return numbers and loops of the plan, and the seconds of this thread."""
    started = time.thread_time()
    try:
        plan = optimize_graph(graph, OPS, limit=limit, options=OPTIONS)
    except tf_exla.MemoryLimitError as error:
        spent = time.thread_time() - started
        return {"limit": limit, "spent": spent, "smallest": error.smallest_limit}
    spent = time.thread_time() - started
    return {
        "limit": limit,
        "spent": spent,
        "before": plan.projected_peak_before,
        "peak": plan.projected_peak,
        "seconds": graph_seconds(OPS, plan.graph, promises=False),
        "loops": loops_of(plan.graph),
    }


def loops_of(graph: Graph, inside: str = "") -> list[str]:
    """Describe the loops of a plan, nested ones after the loop that contains them."""
    found = []
    for node in graph.nodes:
        if isinstance(node, Loop):
            found.append(f"{inside}{node.extent} by {node.chunk}, {node.parallel} at once")
        for key, sub in node.subgraphs:
            if key != "remainder":
                found += loops_of(sub, inside + ("> " if isinstance(node, Loop) else "| "))
    return found


def plan_all(make: Callable[[], Made]) -> dict[str, Any]:
    """Plan a program at all limits."""
    graph = captured(make())
    peak = planned(graph, 10**14)["before"]
    least = planned(graph, 1)
    limits = [int(fraction * peak) for fraction in FRACTIONS]
    limits = [*(limit for limit in limits if limit > least["smallest"]), least["smallest"]]
    plans = [least, *(planned(graph, limit) for limit in limits)]
    return {
        "nodes": sum(1 for _ in walk(graph)),
        "stock": peak,
        "smallest": least["smallest"],
        "plans": plans,
        "stock_seconds": graph_seconds(OPS, graph),
    }


def structure(found: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest limit and the loops of a program's plans, each by the size of its axis.

    Chunks are left out, since estimates alone decide them.
    """
    plans = [
        sorted(loop.split(" by ")[0] for loop in plan["loops"])
        for plan in found["plans"]
        if "loops" in plan
    ]
    return {"smallest": found["smallest"], "loops": plans}


def golden(names: Sequence[str]) -> dict[str, Any]:
    """Return the structure of the plans of some programs."""
    table = dict(programs())
    return {name: structure(plan_all(table[name])) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.golden:
        names = options.names or list(json.loads(GOLDEN.read_text()))
        GOLDEN.write_text(json.dumps(golden(names), indent=1) + "\n")
        return
    found: dict[str, Any] = {}
    for name, make in programs():
        if options.names and not any(part in name for part in options.names):
            continue
        try:
            found[name] = plan_all(make)
        except Exception as error:
            print("FAIL", name, repr(error)[:300], flush=True)
            continue
        one = found[name]
        spent = max(plan["spent"] for plan in one["plans"])
        print(f"{name}: {one['nodes']} nodes, {spent:.2f} s", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    print("\n| program | nodes | seconds | seconds per 1,000 nodes |\n|---|---:|---:|---:|")
    rows = [
        (1000 * plan["spent"] / one["nodes"], plan["spent"], plan["limit"], name)
        for name, one in found.items()
        for plan in one["plans"]
    ]
    for ratio, spent, limit, name in sorted(rows):
        nodes = found[name]["nodes"]
        print(f"| {name}, {limit / 1e6:.2f} MB | {nodes:,} | {spent:.2f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
