"""FAISS: flat indices, exact. The index, and for cosines the norms, are made before the call."""

from __future__ import annotations

from collections.abc import Mapping

import faiss

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import Array
from gp_experiments.peers.program import Build, Program

_METRICS = {
    "l2": faiss.METRIC_L2,
    "l1": faiss.METRIC_L1,
    "cosine": faiss.METRIC_INNER_PRODUCT,
}


def _knn(case: Case, data: Mapping[str, Array]) -> Program:
    index = faiss.IndexFlat(case.sizes["d"], _METRICS[case.metric])
    points = data["data"].copy()
    if case.metric == "cosine":
        faiss.normalize_L2(points)
    index.add(points)
    return Program(lambda: {"indices": index.search(data["queries"], case.sizes["k"])[1]})


WORKS: dict[str, Build] = {"knn": _knn}
