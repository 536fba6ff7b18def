"""Programs of JAX users, each with its arguments and a limit that it must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def square_distance(x: jax.Array, y: jax.Array) -> jax.Array:
    return (x**2).sum(-1)[:, None] + (y**2).sum(-1)[None] - 2 * x @ y.T


def rbf(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.exp(-0.5 * square_distance(x, y))


def matvec() -> Made:
    return lambda x, v: rbf(x, x) @ v, (normal(10_000, 3), normal(10_000))


def matvec_gradient() -> Made:
    def loss(x: jax.Array, v: jax.Array) -> jax.Array:
        return ((rbf(x, x) @ v) ** 2).sum()

    return jax.value_and_grad(loss, (0, 1)), (normal(10_000, 3), normal(10_000))


def _attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(np.float32)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def _heads() -> tuple[jax.Array, ...]:
    return tuple(normal(1, 4, 4096, 64, seed=k, dtype="float32") for k in range(3))


def attention() -> Made:
    return _attention, _heads()


def attention_gradient() -> Made:
    return jax.grad(lambda *heads: (_attention(*heads) ** 2).sum(), (0, 1, 2)), _heads()


def sgpr() -> Made:
    """The bound of a sparse Gaussian process, and its gradients."""

    def bound(log: jax.Array, z: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        scale, variance, noise = jnp.exp(log)
        kuf = variance * rbf(z / scale, x / scale)
        kuu = variance * rbf(z / scale, z / scale) + 1e-6 * jnp.eye(len(z))
        root = jnp.linalg.cholesky(kuu)
        a = jax.scipy.linalg.solve_triangular(root, kuf, lower=True) / jnp.sqrt(noise)
        b = jnp.eye(len(z)) + a @ a.T
        rootb = jnp.linalg.cholesky(b)
        c = jax.scipy.linalg.solve_triangular(rootb, a @ y, lower=True) / jnp.sqrt(noise)
        n = len(x)
        return (
            -0.5 * n * jnp.log(2 * jnp.pi * noise)
            - jnp.log(jnp.diag(rootb)).sum()
            - 0.5 * (y**2).sum() / noise
            + 0.5 * (c**2).sum()
            - 0.5 * n * variance / noise
            + 0.5 * jnp.trace(a @ a.T)
        )

    x = normal(20_000, 2)
    y = jnp.sin(x.sum(-1))[:, None]
    return jax.value_and_grad(bound, (0, 1)), (jnp.zeros(3), normal(100, 2, seed=1), x, y)


def gpr() -> Made:
    """The marginal likelihood of a Gaussian process, and its gradients."""

    def likelihood(log: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        scale, noise = jnp.exp(log)
        root = jnp.linalg.cholesky(rbf(x / scale, x / scale) + noise * jnp.eye(len(x)))
        a = jax.scipy.linalg.solve_triangular(root, y, lower=True)
        return -0.5 * (a**2).sum() - jnp.log(jnp.diag(root)).sum()

    return jax.value_and_grad(likelihood), (jnp.zeros(2), normal(1_200, 3), normal(1_200))


def product() -> Made:
    """A wide product, for which Eigen packs a copy as large as the result."""
    return lambda a, b: a @ b, (normal(500, 500), normal(500, 50_000))


def conjugate_gradients() -> Made:
    def solve(x: jax.Array, b: jax.Array) -> jax.Array:
        k = rbf(x, x) + 10 * jnp.eye(len(x))
        return jax.scipy.sparse.linalg.cg(lambda v: k @ v, b, maxiter=20)[0]

    return solve, (normal(6_000, 3), normal(6_000))


def discrepancy() -> Made:
    def mmd(x: jax.Array, y: jax.Array) -> jax.Array:
        return rbf(x, x).mean() + rbf(y, y).mean() - 2 * rbf(x, y).mean()

    return jax.value_and_grad(mmd), (normal(3_000, 3), normal(3_000, 3, seed=1))


def neighbours() -> Made:
    def nearest(x: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, places = jax.lax.top_k(-square_distance(q, x), 10)
        return -values, places

    return nearest, (normal(20_000, 10), normal(2_000, 10, seed=1))


PROGRAMS: dict[str, tuple[Callable[[], Made], float]] = {
    "matvec": (matvec, 10),
    "matvec, gradient": (matvec_gradient, 30),
    "attention": (attention, 40),
    "attention, gradient": (attention_gradient, 50),
    "SGPR, value and gradients": (sgpr, 40),
    "GPR, value and gradients": (gpr, 72),
    "wide product": (product, 610),
    "conjugate gradients": (conjugate_gradients, 30),
    "MMD of equal sizes, value and gradient": (discrepancy, 20),
    "nearest neighbours": (neighbours, 40),
}
"""With limits in MB."""
