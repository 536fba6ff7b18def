"""Exact k nearest neighbours by brute force as in the paper's Tables 1 and 3: queries per second.

k = 10, float32, squared Euclidean (L2), Manhattan (L1) and cosine distance; stock
TensorFlow or JAX, the same under a limit, and peers where they are installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import PositiveInt

from gp_experiments import calls
from gp_experiments.arms import Arm
from gp_experiments.experiments import runs
from gp_experiments.peers.contenders import NAMED
from gp_experiments.ranges import Several, Size
from gp_experiments.sweep import Task
from gp_experiments.vectors import check_name_and_file, load_vectors

Peer = Literal["keops", "faiss", "sklearn"]  # as gp_experiments.peers knows them
PEERS: tuple[Peer, ...] = get_args(Peer)
SUMMARY = "k nearest neighbours: queries per second and peak (Tables 1 and 3)"
Distance = Literal["L2", "L1", "cosine"]


@dataclass(frozen=True, kw_only=True)
class Config(runs.Settings):
    """`vectors`: names as in gp_experiments.vectors; `queries`: at most so many of them.

    `peers`: of these the ones that are installed.
    """

    vectors: Several[str]
    distances: Several[Distance] = ("L2", "L1", "cosine")
    limit: Size = "100MB"
    k: PositiveInt = 10
    queries: PositiveInt = 10_000
    peers: tuple[Peer, ...] = PEERS


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One search."""

    vectors: str
    distance: str
    k: int
    queries: int


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each set of vectors, distance, and arm."""
    peers = [name for name in config.peers if not NAMED[name].missing()]
    for vectors in config.vectors:
        for distance in config.distances:
            arms = [*runs.arms(config, [config.limit])]
            arms += [runs.fields_of(config, name, "") for name in peers]
            for arm in arms:
                run = Run(
                    vectors=vectors, distance=distance, k=config.k, queries=config.queries, **arm
                )
                yield runs.task(
                    __name__, f"{vectors} {distance}", run, held=bool(run.limit),
                    data=(check_name_and_file, (vectors, config.queries)),
                )  # fmt: skip


def program(run: Run, data_dir: Path) -> runs.Written:
    """Return the search as a function of queries [m, d] and data [n, d]; its results are [m, k]."""
    data, queries = load_vectors(run.vectors, run.queries, data_dir)
    return calls.programs(run.frontend).knn(run), [queries, data]


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit."""
    run, data_dir = runs.parse(Run, arguments)
    return runs.peak_of(run, lambda: program(run, data_dir), arm)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in the usual settings of the library."""
    run, data_dir = runs.parse(Run, arguments)
    if run.arm in PEERS:
        return time_peer(run, data_dir, arm)

    def make() -> runs.Written:
        search, (queries, data) = program(run, data_dir)
        arm.note(n=len(data), d=data.shape[1], m=len(queries))
        return search, [queries, data]

    return runs.time_of(run, make, arm)


def time_peer(run: Run, data_dir: Path, arm: Arm) -> dict[str, Any]:
    """Time another library's search; building its index is not counted."""
    from gp_experiments.peers.cases import Case

    data, queries = load_vectors(run.vectors, run.queries, data_dir)
    sizes = {"n": len(data), "d": data.shape[1], "queries": len(queries), "k": run.k}
    arm.note(n=sizes["n"], d=sizes["d"], m=sizes["queries"], device="CPU")
    case = Case("knn", "knn", sizes, "", sizes, "", dtype="float32", metric=run.distance.lower())
    program = NAMED[run.arm].build("knn")(case, {"data": data, "queries": queries})
    return calls.time_calls(lambda: program.call().values(), arm, repeats=run.repeats)
