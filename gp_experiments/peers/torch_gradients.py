"""Value and gradients of v^T K v by PyTorch's differentiation, whoever computes K v."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import VARIANCE, Array, lengthscales, softplus_slope
from gp_experiments.peers.program import Program


def quadratic(case: Case, data: Mapping[str, Array], product: Callable[[Any, Any], Any]) -> Program:
    """Return the program; `product` is K(z, z) v of scaled z [n, d], v [n, 1], variance 1."""
    X, v = torch.tensor(data["X"]), torch.tensor(data["v"])
    scale, variance = torch.tensor(lengthscales(case)), torch.tensor(VARIANCE, dtype=X.dtype)
    inputs = [one.requires_grad_() for one in (X, v, scale, variance)]
    slopes = [softplus_slope(lengthscales(case)), softplus_slope(VARIANCE)]

    def call() -> Mapping[str, Any]:
        value = (v * variance * product(X / scale, v)).sum()
        by_X, by_v, by_scale, by_variance = torch.autograd.grad(value, inputs)
        return {
            "value": value.detach(),
            "X": by_X,
            "v": by_v,
            "lengthscales": by_scale.numpy() * slopes[0],
            "variance": by_variance.numpy() * slopes[1],
        }

    return Program(call)
