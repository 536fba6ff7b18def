"""JAX: the formulas under `jit`; kernel products by `lax.map` over rows, so that K need not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import JITTER, NOISE, NOISE_FLOOR, VARIANCE, Array, lengthscales
from gp_experiments.peers.program import Build, Program

jax.config.update("jax_enable_x64", True)
ROWS = 1_000


def _program(
    function: Callable[..., Any], arguments: Sequence[Any], names: Sequence[str]
) -> Program:
    compiled = jax.jit(function)
    given = [jnp.asarray(value) for value in arguments]

    def call() -> Mapping[str, Any]:
        results = jax.block_until_ready(jax.tree.leaves(compiled(*given)))
        return dict(zip(names, results, strict=True))

    return Program(call)


def _square_distance(x: Any, y: Any) -> Any:
    return (x**2).sum(-1)[:, None] + (y**2).sum(-1)[None] - 2 * x @ y.T


def _inverse_softplus(value: Any) -> Any:
    return jnp.log(jnp.expm1(value))


def _matvec(case: Case, data: Mapping[str, Array]) -> Program:
    scale = lengthscales(case).astype(case.dtype)

    def function(X: Any, v: Any) -> Any:
        z = X / scale

        def row(one: Any) -> Any:
            return VARIANCE * jnp.exp(-0.5 * _square_distance(one[None], z))[0] @ v

        return jax.lax.map(row, z, batch_size=ROWS)

    return _program(function, (data["X"], data["v"]), ("product",))


def _quadratic(case: Case, data: Mapping[str, Array]) -> Program:
    def function(X: Any, v: Any, raw_scale: Any, raw_variance: Any) -> Any:
        z = X / jax.nn.softplus(raw_scale)
        K = jax.nn.softplus(raw_variance) * jnp.exp(-0.5 * _square_distance(z, z))
        return jnp.vdot(v, K @ v)

    arguments = (
        data["X"],
        data["v"],
        _inverse_softplus(lengthscales(case)),
        _inverse_softplus(VARIANCE),
    )
    names = ("value", "X", "v", "lengthscales", "variance")
    return _program(jax.value_and_grad(function, (0, 1, 2, 3)), arguments, names)


def _matern(x: Any, y: Any, variance: Any, scale: Any) -> Any:
    squared = jnp.maximum(_square_distance(x / scale, y / scale), 1e-36)
    r = jnp.sqrt(3 * squared)
    return variance * (1 + r) * jnp.exp(-r)


def _sgpr(case: Case, data: Mapping[str, Array]) -> Program:
    X, Y = jnp.asarray(data["X"]), jnp.asarray(data["Y"])

    def function(raw_variance: Any, raw_scale: Any, raw_noise: Any, Z: Any) -> Any:
        variance, scale = jax.nn.softplus(raw_variance), jax.nn.softplus(raw_scale)
        noise = jax.nn.softplus(raw_noise) + NOISE_FLOOR
        n, m = len(X), len(Z)
        L = jnp.linalg.cholesky(_matern(Z, Z, variance, scale) + JITTER * jnp.eye(m))
        A = solve_triangular(L, _matern(Z, X, variance, scale), lower=True) / jnp.sqrt(noise)
        P = A @ A.T
        LB = jnp.linalg.cholesky(jnp.eye(m) + P)
        c = solve_triangular(LB, A @ Y, lower=True) / jnp.sqrt(noise)
        log_det = 2 * jnp.log(jnp.diag(LB)).sum() + n * jnp.log(2 * jnp.pi * noise)
        trace = n * variance / noise - jnp.trace(P)
        return 0.5 * ((Y**2).sum() / noise - (c**2).sum() + log_det + trace)

    arguments = (
        _inverse_softplus(VARIANCE),
        _inverse_softplus(lengthscales(case)),
        _inverse_softplus(NOISE - NOISE_FLOOR),
        data["Z"],
    )
    names = ("loss", "variance", "lengthscales", "noise", "Z")
    return _program(jax.value_and_grad(function, (0, 1, 2, 3)), arguments, names)


def _normalized(x: Any) -> Any:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


_DISTANCES: dict[str, Callable[[Any, Any], Any]] = {
    "l2": _square_distance,
    "l1": lambda x, y: jnp.abs(x[:, None] - y[None]).sum(-1),
    "cosine": lambda x, y: 1 - _normalized(x) @ _normalized(y).T,
}


def _knn(case: Case, data: Mapping[str, Array]) -> Program:
    distance, k = _DISTANCES[case.metric], case.sizes["k"]
    return _program(
        lambda queries, points: jax.lax.top_k(-distance(queries, points), k)[1],
        (data["queries"], data["data"]),
        ("indices",),
    )


def _attend(q: Any, k: Any, v: Any) -> Any:
    """Shapes as in `data`; JAX's own function has the heads before the last axis."""
    swapped = [jnp.swapaxes(one, 1, 2) for one in (q, k, v)]
    return jnp.swapaxes(jax.nn.dot_product_attention(*swapped), 1, 2)


def _attention(case: Case, data: Mapping[str, Array]) -> Program:
    return _program(_attend, [data[name] for name in ("q", "k", "v")], ("output",))


def _attention_gradients(case: Case, data: Mapping[str, Array]) -> Program:
    def function(q: Any, k: Any, v: Any, upstream: Any) -> Any:
        output, pull = jax.vjp(_attend, q, k, v)
        return output, pull(upstream)

    arguments = [data[name] for name in ("q", "k", "v", "upstream")]
    return _program(function, arguments, ("output", "q", "k", "v"))


WORKS: dict[str, Build] = {
    "matvec": _matvec,
    "quadratic": _quadratic,
    "sgpr": _sgpr,
    "knn": _knn,
    "attention": _attention,
    "attention-gradients": _attention_gradients,
}
