"""GPflow's SGPR, and the selection of its initial inducing points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gp_experiments.data import Array

if TYPE_CHECKING:
    import gpflow

Kernel = Callable[[Array, Array], Array]  # [n, D], [m, D] -> [n, m]


def build_sgpr(
    data: tuple[Array, Array],
    Z: Array,
    *,
    lengthscale: float = 1.0,
    noise_variance: float = 0.1,
) -> gpflow.models.SGPR:
    """Build GPflow's SGPR (Titsias 2009) for X [N, D], y [N, 1], inducing points Z [M, D].

    Matern-3/2 kernel of variance 1 with a lengthscale per input, constant mean, float64. Data are
    standardised. All parameters are trainable, including inducing points.
    """
    import gpflow

    return gpflow.models.SGPR(
        data,
        gpflow.kernels.Matern32(lengthscales=np.full(Z.shape[1], lengthscale)),
        inducing_variable=Z,
        mean_function=gpflow.functions.Constant(),
        noise_variance=noise_variance,
    )


def matern32(lengthscale: float) -> Kernel:
    """Return the Matern-3/2 kernel of variance 1, in NumPy."""

    def kernel(A: Array, B: Array) -> Array:
        scaled = np.sqrt(3) * np.linalg.norm(A[:, None] - B[None], axis=-1) / lengthscale  # [n, m]
        covariance: Array = (1 + scaled) * np.exp(-scaled)
        return covariance

    return kernel


def select_inducing_points(
    X: Array, num: int, kernel: Kernel, *, rng: np.random.Generator, subset: int = 10_000
) -> Array:
    """Choose rows of X [N, D] greedily, each where the variance given those chosen is largest.

    `kernel` has variance 1. Candidates are a random subset of the rows. Returns [num, D], or fewer
    rows if no candidate has variance left, as when fewer than `num` are distinct.

    This is a pivoted Cholesky decomposition of the candidates' covariance, O(subset num^2). Source:
    Burt, Rasmussen and van der Wilk 2020, "Convergence of Sparse Variational Inference in Gaussian
    Processes Regression", JMLR 21.
    """
    candidates = X[rng.permutation(len(X))[:subset]]  # [S, D]
    num = min(num, len(candidates))
    remaining = np.ones(len(candidates))  # [S], variance given the chosen
    factor = np.empty((num, len(candidates)))  # [M, S], factor.T @ factor ~ covariance
    chosen: list[int] = []
    for m in range(num):
        pivot = int(remaining.argmax())
        if remaining[pivot] <= 1e-10:  # rounding only: nothing left to explain
            break
        column = kernel(candidates, candidates[pivot : pivot + 1])[:, 0]  # [S]
        factor[m] = (column - factor[:m, pivot] @ factor[:m]) / np.sqrt(remaining[pivot])
        remaining -= factor[m] ** 2
        remaining[pivot] = 0.0
        chosen.append(pivot)
    Z: Array = candidates[chosen]  # [M, D]
    return Z
