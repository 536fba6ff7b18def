"""scikit-learn's nearest neighbours by brute force, on all cores."""

from __future__ import annotations

from collections.abc import Mapping

from sklearn.neighbors import NearestNeighbors

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import Array
from gp_experiments.peers.program import Build, Program

_METRICS = {"l2": "sqeuclidean", "l1": "manhattan", "cosine": "cosine"}


def _knn(case: Case, data: Mapping[str, Array]) -> Program:
    search = NearestNeighbors(
        n_neighbors=case.sizes["k"], algorithm="brute", metric=_METRICS[case.metric], n_jobs=-1
    ).fit(data["data"])
    return Program(lambda: {"indices": search.kneighbors(data["queries"], return_distance=False)})


WORKS: dict[str, Build] = {"knn": _knn}
