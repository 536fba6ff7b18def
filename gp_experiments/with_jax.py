"""The programs of the experiments as users write them in JAX, with nothing specific to tf_exla.

`with_tensorflow.py` has the same functions. Each takes the run of its experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular

from gp_experiments import measuring_jax
from gp_experiments.calls import Trainable
from gp_experiments.data import Array, Split

Function = Callable[..., Any]
NOISE_FLOOR, JITTER = 1e-6, 1e-6  # GPflow's


# Kernels and distances.


def square_distance(x: Any, y: Any) -> Any:
    """Return squared distances [n, m] of x [n, D] and y [m, D]."""
    return (x**2).sum(-1)[:, None] + (y**2).sum(-1)[None] - 2 * x @ y.T


def squared_exponential(x: Any, y: Any, variance: Any = 1.0) -> Any:
    """Return the squared exponential kernel [n, m] of inputs over their lengthscales."""
    return variance * jnp.exp(-0.5 * square_distance(x, y))


def matern(x: Any, y: Any, variance: Any = 1.0) -> Any:
    """Return the Matern-3/2 kernel [n, m] of inputs over their lengthscales."""
    r = jnp.sqrt(3 * jnp.maximum(square_distance(x, y), 1e-36))
    return variance * (1 + r) * jnp.exp(-r)


def _normalized(x: Any) -> Any:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


DISTANCES: dict[str, Function] = {
    "l2": square_distance,
    "l1": lambda x, y: jnp.abs(x[:, None] - y[None]).sum(-1),
    "cosine": lambda x, y: 1 - _normalized(x) @ _normalized(y).T,
}


# Kernel products, neighbours, conjugate gradients.


def matvec(run: Any) -> Function:
    """Return (X [N, 1], v [N, 1]) -> K(X[:rows], X) v as a function."""
    return lambda X, v: squared_exponential(X[: run.rows], X) @ v


def knn(run: Any) -> Function:
    """Return a search: queries [m, d], data [n, d] -> values and indices [m, k]."""
    distance = DISTANCES[run.distance.lower()]
    return lambda x, y: jax.lax.top_k(-distance(x, y), run.k)


def matern32(lengthscale: float) -> Function:
    """Return the Matern-3/2 kernel of variance 1: [n, D], [m, D] -> [n, m]."""

    def kernel(x: Any, y: Any = None) -> Any:
        return matern(x / lengthscale, (x if y is None else y) / lengthscale)

    return kernel


def mean(kernel: Function) -> Function:
    """Return (X_test [n, D], X [N, D], weights [N]) -> the mean [n, 1] of a Gaussian process."""
    return lambda X_test, X, weights: (kernel(X_test, X) @ weights)[:, None]


def conjugate_gradients(kernel: Function, run: Any) -> Function:
    """Return a function (X [N, D], y [N], B [N, R]) -> weights [N], iterations [], residual [].

    It solves (K + noise) weights = y. B Bᵀ approximates K.
    """

    def solve(X: Any, y: Any, B: Any) -> Any:
        K = kernel(X)  # [N, N]
        inner = jnp.linalg.cholesky(B.T @ B + run.noise * jnp.eye(run.rank))  # [R, R]

        def precondition(r: Any) -> Any:
            return (r - B @ cho_solve((inner, True), B.T @ r)) / run.noise

        def unfinished(state: Any) -> Any:
            i, _, r, _, _ = state
            enough = jnp.linalg.norm(r) <= run.tolerance * jnp.linalg.norm(y)
            return (i < run.iterations) & ~enough

        def step(state: Any) -> Any:
            i, w, r, p, rz = state
            Kp = K @ p + run.noise * p
            alpha = rz / (p @ Kp)
            w, r = w + alpha * p, r - alpha * Kp
            z = precondition(r)
            return i + 1, w, r, z + (r @ z) / rz * p, r @ z

        z = precondition(y)
        start = (0, jnp.zeros_like(y), y, z, y @ z)
        i, w, r, _, _ = jax.lax.while_loop(unfinished, step, start)
        return w, i, jnp.linalg.norm(r) / jnp.linalg.norm(y)

    return solve


# Attention.


def attention(run: Any) -> Function:
    """Return the layers, x [batch, length, d_model] -> results of this shape, or their train step.

    The train step takes x and targets of this shape, and returns the loss [] and the new weights.
    """
    rng = np.random.default_rng(0)
    layers = [_layer(rng, run.d_model, run.dff) for _ in range(run.layers)]

    def forward(weights: Any, x: Any) -> Any:
        for layer in weights:
            x = _normalize(layer["norms"][0], x + _attend(layer, x, run.heads))
            hidden = jax.nn.relu(_dense(layer["up"], x))
            x = _normalize(layer["norms"][1], x + _dense(layer["down"], hidden))
        return x

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return ((forward(weights, x) - y) ** 2).mean()

    def step(x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(layers, x, y)
        return value, jax.tree.map(lambda one, slope: one - 1e-3 * slope, layers, gradient)

    return (lambda x: forward(layers, x)) if run.mode == "forward" else step


def _layer(rng: np.random.Generator, width: int, hidden: int) -> dict[str, Any]:
    def dense(rows: int, columns: int) -> Any:
        spread = np.sqrt(6 / (rows + columns))
        weights = rng.uniform(-spread, spread, (rows, columns)).astype(np.float32)
        return weights, np.zeros(columns, np.float32)

    norm = (np.ones(width, np.float32), np.zeros(width, np.float32))
    names = ("query", "key", "value", "out")
    inner = {name: dense(width, width) for name in names}
    return {**inner, "up": dense(width, hidden), "down": dense(hidden, width), "norms": [norm] * 2}


def _dense(layer: Any, x: Any) -> Any:
    return x @ layer[0] + layer[1]


def _normalize(layer: Any, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    deviation = jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
    return centred / deviation * layer[0] + layer[1]


def _attend(layer: Any, x: Any, heads: int) -> Any:
    split = (*x.shape[:2], heads, -1)
    q, k, v = (_dense(layer[name], x).reshape(split) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(np.float32)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return _dense(layer["out"], mixed.reshape(x.shape))


# Sparse Gaussian process regression (Titsias 2009), with GPflow's parameters.


def inverse_softplus(value: Any) -> Any:
    return jnp.log(jnp.expm1(value))


def _common(p: Any, X: Any, Y: Any) -> tuple[Any, ...]:
    """Return A [M, N], the Cholesky factors of Kuu and of B [M, M], c [M, 1], and the noise."""
    variance, scale = jax.nn.softplus(p["variance"]), jax.nn.softplus(p["lengthscales"])
    noise = jax.nn.softplus(p["noise"]) + NOISE_FLOOR
    Z, identity = p["Z"] / scale, jnp.eye(len(p["Z"]))
    L = jnp.linalg.cholesky(matern(Z, Z, variance) + JITTER * identity)
    A = solve_triangular(L, matern(Z, X / scale, variance), lower=True) / jnp.sqrt(noise)
    LB = jnp.linalg.cholesky(identity + A @ A.T)
    c = solve_triangular(LB, A @ (Y - p["mean"]), lower=True) / jnp.sqrt(noise)
    return A, L, LB, c, noise


def sgpr_loss(p: Any, X: Any, Y: Any) -> Any:
    """Return the negative evidence bound of parameters before softplus, X [N, D], Y [N, 1]."""
    A, _, LB, c, noise = _common(p, X, Y)
    variance, n = jax.nn.softplus(p["variance"]), len(X)
    fit = ((Y - p["mean"]) ** 2).sum() / noise - (c**2).sum()
    log_det = 2 * jnp.log(jnp.diag(LB)).sum() + n * jnp.log(2 * jnp.pi * noise)
    trace = n * variance / noise - jnp.trace(A @ A.T)
    return 0.5 * (fit + log_det + trace)


def sgpr_predict(p: Any, X: Any, Y: Any, X_test: Any) -> tuple[Any, Any]:
    """Return mean and variance [N_test, 1] of y at X_test [N_test, D]."""
    _, L, LB, c, noise = _common(p, X, Y)
    variance, scale = jax.nn.softplus(p["variance"]), jax.nn.softplus(p["lengthscales"])
    outer = solve_triangular(L, matern(p["Z"] / scale, X_test / scale, variance), lower=True)
    inner = solve_triangular(LB, outer, lower=True)
    spread = variance + (inner**2).sum(0) - (outer**2).sum(0) + noise
    return inner.T @ c + p["mean"], spread[:, None]


def sgpr(run: Any, split: Split, Z: Array, lengthscale: float) -> Trainable:
    """Return SGPR for training, compiled by `jax.jit` or by `tf_exla.jax.jit`."""
    start = {
        "variance": inverse_softplus(1.0),
        "lengthscales": jnp.full(Z.shape[1], inverse_softplus(lengthscale)),
        "noise": inverse_softplus(0.1 - NOISE_FLOOR),
        "mean": jnp.zeros(()),
    }
    trained = {"Z": jnp.asarray(Z)} if run.train_inducing else {}
    parameters, unravel = ravel_pytree(start | trained)

    def loss(x: Any, X: Any, Y: Any, Z: Any) -> Any:
        return sgpr_loss({"Z": Z} | unravel(x), X, Y)

    def predict(x: Any, X: Any, Y: Any, Z: Any, X_test: Any) -> Any:
        return sgpr_predict({"Z": Z} | unravel(x), X, Y, X_test)

    training = measuring_jax.build(
        jax.value_and_grad(loss), [parameters, *split.train, Z], run.arm, run.limit
    )
    given = training.arguments[1:]
    predicting = measuring_jax.build(
        predict, [parameters, *given, split.test[0]], run.arm, run.limit
    )
    X_test = predicting.arguments[-1]
    facts = training.facts | {"projected_predict": predicting.facts.get("projected")}

    def evaluate(x: Any) -> tuple[Any, Any]:
        value, gradient = map(np.asarray, training.call(jnp.asarray(x), *given))
        return value, gradient

    def at(x: Any) -> tuple[Any, Any]:
        mean, variance = map(np.asarray, predicting.call(jnp.asarray(x), *given, X_test))
        return mean, variance

    return Trainable(np.asarray(parameters), evaluate, at, facts, lambda _: training.measure())
