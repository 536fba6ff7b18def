"""KeOps: symbolic matrices, compiled for this machine (`CXXFLAGS=-march=native`, see the table)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pykeops.numpy import LazyTensor

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import VARIANCE, Array, lengthscales
from gp_experiments.peers.program import Build, Program


def _matvec(case: Case, data: Mapping[str, Array]) -> Program:
    X, v, scale = data["X"], data["v"], lengthscales(case).astype(case.dtype)

    def call() -> Mapping[str, Any]:
        z = X / scale
        K = (-LazyTensor(z[:, None]).sqdist(LazyTensor(z[None])) / 2).exp()
        return {"product": VARIANCE * (K @ v)}

    return Program(call)


def _quadratic(case: Case, data: Mapping[str, Array]) -> Program:
    """Gradients by KeOps's own differentiation, through PyTorch."""
    from pykeops.torch import LazyTensor

    from gp_experiments.peers.torch_gradients import quadratic

    def product(z: Any, v: Any) -> Any:
        return (-LazyTensor(z[:, None]).sqdist(LazyTensor(z[None])) / 2).exp() @ v

    return quadratic(case, data, product)


def _knn(case: Case, data: Mapping[str, Array]) -> Program:
    distance, k = _DISTANCES[case.metric], case.sizes["k"]

    def call() -> Mapping[str, Any]:
        queries, points = data["queries"], data["data"]
        if case.metric == "cosine":
            points = points / np.linalg.norm(points, axis=1, keepdims=True)
        found = distance(LazyTensor(queries[:, None]), LazyTensor(points[None]))
        return {"indices": found.argKmin(k, dim=1)}

    return Program(call)


_DISTANCES: dict[str, Callable[[Any, Any], Any]] = {
    "l2": lambda x, y: x.sqdist(y),
    "l1": lambda x, y: (x - y).abs().sum(-1),
    "cosine": lambda x, y: -(x | y),
}
WORKS: dict[str, Build] = {"matvec": _matvec, "quadratic": _quadratic, "knn": _knn}
