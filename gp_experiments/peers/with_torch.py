"""PyTorch, eager: its fused attention, `cdist` and `topk`, kernel products in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import VARIANCE, Array, lengthscales
from gp_experiments.peers.program import Build, Program
from gp_experiments.peers.torch_gradients import quadratic

ROWS = 1_000


def _matvec(case: Case, data: Mapping[str, Array]) -> Program:
    X, v = torch.tensor(data["X"]), torch.tensor(data["v"])
    scale = torch.tensor(lengthscales(case), dtype=X.dtype)

    def call() -> Mapping[str, Any]:
        z = X / scale
        norms = -0.5 * z.square().sum(1)
        rows = [
            torch.addmm(norms, part, z.T).add_(norm[:, None]).exp_() @ v
            for part, norm in zip(z.split(ROWS), norms.split(ROWS), strict=True)
        ]
        return {"product": VARIANCE * torch.cat(rows)}

    return Program(torch.inference_mode()(call))


def _quadratic(case: Case, data: Mapping[str, Array]) -> Program:
    def product(z: Any, v: Any) -> Any:
        norms = -0.5 * z.square().sum(1)
        return torch.exp(torch.addmm(norms, z, z.T) + norms[:, None]) @ v

    return quadratic(case, data, product)


def _knn(case: Case, data: Mapping[str, Array]) -> Program:
    queries, points = torch.tensor(data["queries"]), torch.tensor(data["data"])
    distance, k = _DISTANCES[case.metric], case.sizes["k"]

    def call() -> Mapping[str, Any]:
        return {"indices": distance(queries, points).topk(k, largest=False).indices}

    return Program(torch.inference_mode()(call))


def _cosine(x: Any, y: Any) -> Any:
    normalize = torch.nn.functional.normalize
    return -normalize(x) @ normalize(y).T


_DISTANCES: dict[str, Callable[[Any, Any], Any]] = {
    "l2": torch.cdist,
    "l1": lambda x, y: torch.cdist(x, y, p=1),
    "cosine": _cosine,
}


def _attention(case: Case, data: Mapping[str, Array]) -> Program:
    arguments = [torch.tensor(data[name]) for name in ("q", "k", "v")]
    attend = torch.nn.functional.scaled_dot_product_attention
    return Program(torch.inference_mode()(lambda: {"output": attend(*arguments)}))


def _attention_gradients(case: Case, data: Mapping[str, Array]) -> Program:
    arguments = [torch.tensor(data[name]).requires_grad_() for name in ("q", "k", "v")]
    upstream = torch.tensor(data["upstream"])

    def call() -> Mapping[str, Any]:
        output = torch.nn.functional.scaled_dot_product_attention(*arguments)
        slopes = torch.autograd.grad(output, arguments, upstream)
        return {"output": output.detach(), **dict(zip("qkv", slopes, strict=True))}

    return Program(call)


WORKS: dict[str, Build] = {
    "matvec": _matvec,
    "quadratic": _quadratic,
    "knn": _knn,
    "attention": _attention,
    "attention-gradients": _attention_gradients,
}
