"""Three curves: time against the limit, time and peak against N, and the tool's time by nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from gp_experiments.peers.cases import Case
from gp_experiments.peers.contenders import NAMED, TENSORFLOW
from gp_experiments.peers.interleave import Worker, WorkerError, in_turns
from gp_experiments.peers.measure import ROOM, Rounds, Say, available_memory
from gp_experiments.peers.peak import FREED_BLOCKS_LEAVE
from tf_exla.byte_size import format_bytes

SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Curves:
    """What the curves run over. `seconds`: one graph may take that long to be optimized."""

    limits: Case
    points: tuple[int, ...]
    nodes: tuple[int, ...]
    seconds: float


FULL = Curves(
    Case("sgpr-50k", "sgpr", {"n": 50_000, "m": 200, "d": 3}, "60MB", {}, ""),
    (25_000, 50_000, 100_000, 200_000, 400_000),
    (100, 300, 1_000, 3_000, 10_000, 20_000),
    300.0,
)
QUICK = Curves(
    Case("sgpr-5k", "sgpr", {"n": 5_000, "m": 50, "d": 3}, "5MB", {}, ""),
    (5_000, 10_000),
    (100, 300),
    60.0,
)


def measure_curves(curves: Curves, rounds: Rounds, say: Say = print) -> Iterator[dict[str, Any]]:
    """Yield the records of all three."""
    yield from against_limit(curves.limits, rounds, say)
    yield from against_size(curves, rounds, say)
    yield from by_nodes(curves, say)


def against_limit(case: Case, rounds: Rounds, say: Say) -> Iterator[dict[str, Any]]:
    """Time one program within shares of its stock peak, all in turns, and stock beside."""
    ours, stock = NAMED["tf_exla"], NAMED["stock"]
    with Worker(ours, FREED_BLOCKS_LEAVE) as worker:
        worker.load(case)
        whole = worker.ask("about")["projected_peak_before"]
    records: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        workers = {}
        for share in SHARES:
            limited = replace(case, limit=f"{int(share * whole)}B")
            name = f"{share:.0%}"
            say(f"limit {name}: {format_bytes(share * whole)}")
            record = {"curve": "limit", "contender": "tf_exla", "share": share}
            worker = stack.enter_context(Worker(ours))
            try:
                worker.load(limited)
            except WorkerError as error:
                yield {**record, "failed": str(error)}
                continue
            workers[name] = worker
            records[name] = {**record, **worker.ask("about")}
        workers["stock"] = stack.enter_context(Worker(stock))
        workers["stock"].load(case)
        records["stock"] = {"curve": "limit", "contender": "stock"}
        times = in_turns(workers, least=rounds.least, most=rounds.most, seconds=rounds.seconds)
    for name, laps in times.items():
        yield {**records[name], **laps}


def against_size(curves: Curves, rounds: Rounds, say: Say) -> Iterator[dict[str, Any]]:
    """Time SGPR, and its peak, for growing N within one limit."""
    for n in curves.points:
        case = replace(curves.limits, sizes={**curves.limits.sizes, "n": n})
        say(f"N = {n:,}")
        with ExitStack() as stack:
            workers, records = {}, {}
            whole = 0
            for name in ("tf_exla", "stock"):
                record: dict[str, Any] = {"curve": "size", "contender": name, "n": n}
                if 2 * whole > ROOM * available_memory():
                    yield {**record, "failed": f"needs {format_bytes(whole)}"}
                    continue
                try:
                    with Worker(NAMED[name], FREED_BLOCKS_LEAVE) as worker:
                        record |= worker.load(case) | worker.ask("about") | worker.ask("peak")
                    whole = whole or record["projected_peak_before"]
                    worker = stack.enter_context(Worker(NAMED[name]))
                    worker.load(case)
                    workers[name] = worker
                except WorkerError as error:
                    yield {**record, "failed": str(error)}
                    continue
                records[name] = record
            times = in_turns(workers, least=rounds.least, most=rounds.most, seconds=rounds.seconds)
        for name, laps in times.items():
            yield {**records[name], **laps}


# The tool's own time.


def by_nodes(curves: Curves, say: Say) -> Iterator[dict[str, Any]]:
    """Time tracing and optimizing of synthetic graphs, each in a process of its own."""
    for kind in ("fits", "split"):
        for nodes in curves.nodes:
            say(f"graph of about {nodes:,} nodes, {kind}")
            record = {"curve": "nodes", "kind": kind, "asked": nodes}
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "gp_experiments.peers.curves", kind, str(nodes)],
                    env={**os.environ, **TENSORFLOW},
                    capture_output=True,
                    text=True,
                    timeout=curves.seconds,
                    check=True,
                )
            except subprocess.TimeoutExpired:
                yield {**record, "failed": f"more than {curves.seconds:.0f} s"}
                break
            except subprocess.CalledProcessError as error:
                last = error.stderr.strip().splitlines()[-1:]
                yield {**record, "failed": " ".join(last)}
                break
            yield {**record, **json.loads(done.stdout.splitlines()[-1])}


ROWS, WIDTH = 4_000, 8
PER_LAYER = 9  # nodes of a layer and its gradient


def synthetic(nodes: int) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Return a deep narrow network's loss and gradients, of about so many nodes."""
    import tensorflow as tf

    layers = max(1, nodes // PER_LAYER)

    def function(x: tf.Tensor, weights: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            hidden = x
            for layer in range(layers):
                hidden = tf.tanh(tf.matmul(hidden, weights) + float(layer))
            loss = tf.reduce_sum(tf.square(hidden))
        return loss, tape.gradient(loss, weights)

    x = tf.random.stateless_normal((ROWS, WIDTH), (0, 0), dtype=tf.float64)
    return function, (x, tf.eye(WIDTH, dtype=tf.float64))


def tool_times(kind: str, nodes: int) -> dict[str, Any]:
    """Return the seconds of the tool's parts for one synthetic graph.

    "fits": the limit is far above the peak. "split": it is half of the peak.
    """
    import tensorflow as tf

    import tf_exla

    function, arguments = synthetic(nodes)
    start = time.perf_counter()
    tf.function(function).get_concrete_function(*arguments)
    tracing = time.perf_counter() - start
    limit = "1TB"
    if kind == "split":
        limit = str(tf_exla.explain(function, *arguments, limit="1TB").projected_peak_before // 2)
        limit += "B"
    optimized = tf_exla.optimize(function, limit)
    start = time.perf_counter()
    report = optimized.report(*arguments)
    planned = time.perf_counter() - start
    start = time.perf_counter()
    optimized(*arguments)
    called = time.perf_counter() - start
    return {
        "nodes": report.nodes_before,
        "parts": {
            "tracing, as tf.function's": tracing,
            "passes": report.rewrite_seconds,
            "capture and restore": max(0.0, planned + called - tracing - report.rewrite_seconds),
        },
        "limit": report.limit,
        "projected_peak": report.projected_peak,
        "projected_peak_before": report.projected_peak_before,
    }


if __name__ == "__main__":
    print(json.dumps(tool_times(sys.argv[1], int(sys.argv[2]))))
