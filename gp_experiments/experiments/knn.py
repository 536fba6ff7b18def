"""Exact k nearest neighbours by brute force as in the paper's Tables 1 and 3: queries per second.

k = 10, float32, squared Euclidean (L2), Manhattan (L1) and cosine distance; stock TensorFlow, the
same under a limit, and peers where they are installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gp_experiments.arms import SPEED_ENVIRONMENT, Arm, Cap
from gp_experiments.peers.contenders import NAMED
from gp_experiments.sweep import Phase, Task

PEERS = ("keops", "faiss", "sklearn")  # as gp_experiments.peers knows them
SUMMARY = "k nearest neighbours: queries per second and peak (Tables 1 and 3)"
Distance = Literal["L2", "L1", "cosine"]


@dataclass(frozen=True)
class Config:
    """`memory` is what stock is held to. Peers that are not installed are passed over.

    `vectors`: names as in gp_experiments.vectors. `timeout` [s] of one process.
    """

    vectors: tuple[str, ...]
    memory: str
    distances: tuple[Distance, ...] = ("L2", "L1", "cosine")
    limit: str = "100MB"
    k: int = 10
    queries: int = 10_000
    stock: bool = True
    peers: tuple[str, ...] = PEERS
    repeats: int = 3
    cap: Cap = "resident"
    jit_compile: bool = False
    timeout: float | None = None


@dataclass(frozen=True)
class Run:
    """One search; `limit` is the limit, or the memory that stock is held to."""

    vectors: str
    distance: str
    arm: str
    limit: str
    k: int
    queries: int
    repeats: int
    cap: Cap
    jit_compile: bool


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each set of vectors, distance, and arm."""
    for vectors in config.vectors:
        for distance in config.distances:
            arms = [("stock", config.memory)] if config.stock else []
            arms += [("limit", config.limit)]
            arms += [(name, "") for name in config.peers if not NAMED[name].missing()]
            for arm, limit in arms:
                run = Run(
                    vectors, distance, arm, limit, config.k, config.queries, config.repeats,
                    config.cap, config.jit_compile and arm == "limit",
                )  # fmt: skip
                phases = [Phase("time", f"{__name__}:time", SPEED_ENVIRONMENT)]
                if limit:
                    phases.insert(0, Phase("peak", f"{__name__}:peak", cap=config.cap))
                yield Task(f"{vectors} {distance} {arm} {limit}", asdict(run), tuple(phases))


def distances(kind: str, x: Any, y: Any) -> Any:
    """Return the distances [m, n] of x [m, d] and y [n, d], as one writes them in TensorFlow."""
    import tensorflow as tf

    if kind == "L1":
        return tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)
    if kind == "cosine":
        x, y = tf.math.l2_normalize(x, -1), tf.math.l2_normalize(y, -1)
        return 1 - tf.matmul(x, y, transpose_b=True)
    xx, yy = tf.reduce_sum(tf.square(x), -1), tf.reduce_sum(tf.square(y), -1)
    return xx[:, None] + yy[None] - 2 * tf.matmul(x, y, transpose_b=True)


def program(run: Run, data_dir: Path) -> tuple[Any, list[Any]]:
    """Return the search as a function of queries [m, d] and data [n, d]; its results are [m, k]."""
    import tensorflow as tf

    from gp_experiments.vectors import load_vectors

    data, queries = load_vectors(run.vectors, run.queries, data_dir)

    def search(x: tf.Tensor, y: tf.Tensor) -> Any:
        return tf.math.top_k(-distances(run.distance, x, y), run.k)

    return search, [tf.constant(queries), tf.constant(data)]


def _run(arguments: dict[str, Any]) -> tuple[Run, Path]:
    arguments.pop("work_dir")
    data_dir = Path(arguments.pop("data_dir"))
    return Run(**arguments), data_dir


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit."""
    from gp_experiments.measuring import limit_device, peak_of

    run, data_dir = _run(arguments)
    limit_device(run.cap, run.limit)
    return peak_of(*program(run, data_dir), run.arm, run.limit, arm, jit_compile=run.jit_compile)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in the usual settings of the library."""
    run, data_dir = _run(arguments)
    if run.arm in PEERS:
        return time_peer(run, data_dir, arm)
    from gp_experiments.measuring import limit_device, time_of

    limit_device(run.cap, run.limit)
    search, (queries, data) = program(run, data_dir)
    arm.note(n=int(data.shape[0]), d=int(data.shape[1]), m=int(queries.shape[0]))
    return time_of(
        search, [queries, data], run.arm, run.limit, arm,
        repeats=run.repeats, jit_compile=run.jit_compile,
    )  # fmt: skip


def time_peer(run: Run, data_dir: Path, arm: Arm) -> dict[str, Any]:
    """Time another library's search; building its index is not counted."""
    from gp_experiments.measuring import time_calls
    from gp_experiments.peers.cases import Case
    from gp_experiments.vectors import load_vectors

    data, queries = load_vectors(run.vectors, run.queries, data_dir)
    sizes = {"n": len(data), "d": data.shape[1], "queries": len(queries), "k": run.k}
    arm.note(n=sizes["n"], d=sizes["d"], m=sizes["queries"], device="CPU")
    case = Case("knn", "knn", sizes, "", sizes, "", dtype="float32", metric=run.distance.lower())
    program = NAMED[run.arm].build("knn")(case, {"data": data, "queries": queries})
    return time_calls(program.call, arm, repeats=run.repeats)
