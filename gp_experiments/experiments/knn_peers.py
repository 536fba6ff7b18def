"""The same exact searches by other libraries, where they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gp_experiments.arms import Arm

Search = Callable[[], tuple[Any, Any]]  # () -> distances [m, k], indices [m, k]


def _sklearn(distance: str, data: Any, queries: Any, k: int) -> Search:
    from sklearn.neighbors import NearestNeighbors

    metric = {"L2": "sqeuclidean", "L1": "manhattan", "cosine": "cosine"}[distance]
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric, n_jobs=-1).fit(data)
    return lambda: index.kneighbors(queries)


def _faiss(distance: str, data: Any, queries: Any, k: int) -> Search:
    import faiss

    dims = data.shape[1]
    if distance == "cosine":
        data, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (data, queries))
        index = faiss.IndexFlatIP(dims)
    else:
        metric = faiss.METRIC_L2 if distance == "L2" else faiss.METRIC_L1
        index = faiss.IndexFlat(dims, metric)
    index.add(data)

    def search() -> tuple[Any, Any]:
        found, indices = index.search(queries, k)
        return (1 - found if distance == "cosine" else found), indices

    return search


def _keops(distance: str, data: Any, queries: Any, k: int) -> Search:
    from pykeops.numpy import LazyTensor

    if distance == "cosine":
        data, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (data, queries))
    x, y = LazyTensor(queries[:, None]), LazyTensor(data[None])
    if distance == "L2":
        lazy = ((x - y) ** 2).sum(-1)
    elif distance == "L1":
        lazy = (x - y).abs().sum(-1)
    else:
        lazy = 1 - (x | y)
    return lambda: lazy.Kmin_argKmin(k, dim=1)


_PEERS = {
    "keops": ("pykeops", _keops),
    "faiss": ("faiss", _faiss),
    "sklearn": ("sklearn", _sklearn),
}
NAMES = tuple(_PEERS)


def can(name: str, distance: str) -> bool:
    """Return whether the peer is installed. Raises ValueError for a name that is none."""
    if name not in _PEERS:
        raise ValueError(f"there is no peer {name!r}; known are {', '.join(NAMES)}")
    return importlib.util.find_spec(_PEERS[name][0]) is not None


def time(
    name: str,
    distance: str,
    vectors: str,
    queries: int,
    k: int,
    repeats: int,
    data_dir: Path,
    arm: Arm,
) -> dict[str, Any]:
    """Time a peer's search; building its index is not counted."""
    from gp_experiments.measuring import time_calls
    from gp_experiments.vectors import load_vectors

    data, asked = load_vectors(vectors, queries, data_dir)
    arm.note(n=len(data), d=data.shape[1], m=len(asked), device="CPU")
    return time_calls(_PEERS[name][1](distance, data, asked, k), arm, repeats=repeats)
