"""GPyTorch's SGPR: the loss by its marginal likelihood and added trace term, with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpytorch
import torch

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import JITTER, NOISE, NOISE_FLOOR, VARIANCE, Array, lengthscales
from gp_experiments.peers.program import Build, Program


class _Model(gpytorch.models.ExactGP):  # type: ignore[misc]  # no types
    def __init__(self, X: Any, y: Any, Z: Any, likelihood: Any, scale: Any) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        matern = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=X.shape[1])
        base = gpytorch.kernels.ScaleKernel(matern)
        self.kernel = gpytorch.kernels.InducingPointKernel(base, Z, likelihood)
        matern.lengthscale, base.outputscale = scale, VARIANCE

    def forward(self, X: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.kernel(X))


def _sgpr(case: Case, data: Mapping[str, Array]) -> Program:
    X, y, Z = (torch.tensor(data[name]) for name in ("X", "Y", "Z"))
    constraint = gpytorch.constraints.GreaterThan(NOISE_FLOOR)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=constraint)
    model = _Model(X, y[:, 0], Z, likelihood, torch.tensor(lengthscales(case)))
    model.double().train()
    likelihood.noise = NOISE
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    inducing = model.kernel
    parameters = {
        "variance": inducing.base_kernel.raw_outputscale,
        "lengthscales": inducing.base_kernel.base_kernel.raw_lengthscale,
        "noise": likelihood.noise_covar.raw_noise,
        "Z": inducing.inducing_points,
    }

    def call() -> Mapping[str, Any]:
        with gpytorch.settings.cholesky_jitter(double_value=JITTER):
            loss = -objective(model(X), y[:, 0]) * len(X)
            slopes = torch.autograd.grad(loss, list(parameters.values()))
        made = {name: s.reshape(-1) for name, s in zip(parameters, slopes, strict=True)}
        return {
            "loss": loss.detach(),
            "variance": made["variance"][0],
            "lengthscales": made["lengthscales"],
            "noise": made["noise"][0],
            "Z": made["Z"].reshape(Z.shape),
        }

    return Program(call)


WORKS: dict[str, Build] = {"sgpr": _sgpr}
