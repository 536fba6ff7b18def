"""KeOps: symbolic matrices, compiled for this machine (`CXXFLAGS=-march=native`, see the table)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pykeops.numpy import LazyTensor

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import VARIANCE, Array, lengthscales, softplus_slope
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
    import torch
    from pykeops.torch import LazyTensor

    X, v = torch.tensor(data["X"]), torch.tensor(data["v"])
    scale, variance = torch.tensor(lengthscales(case)), torch.tensor(VARIANCE, dtype=X.dtype)
    inputs = [one.requires_grad_() for one in (X, v, scale, variance)]
    slopes = [softplus_slope(lengthscales(case)), softplus_slope(VARIANCE)]

    def call() -> Mapping[str, Any]:
        z = X / scale
        K = (-LazyTensor(z[:, None]).sqdist(LazyTensor(z[None])) / 2).exp()
        value = (v * variance * (K @ v)).sum()
        by_X, by_v, by_scale, by_variance = torch.autograd.grad(value, inputs)
        return {
            "value": value.detach(),
            "X": by_X,
            "v": by_v,
            "lengthscales": by_scale.numpy() * slopes[0],
            "variance": by_variance.numpy() * slopes[1],
        }

    return Program(call)


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
