"""Random JAX programs of structured steps: loops, branches, random keys, indices.

Where `random_jax.py` has formulas, these have control flow and movement, under transformations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

X = Any  # an array
Step = Callable[[X, X, X, X], X]  # of a matrix, a column, a row and a key

_MATRICES: list[Callable[[X, X], X]] = [
    lambda x, y: jnp.exp(-0.5 * jnp.sum((x[:, None] - y[None]) ** 2, -1)),
    lambda x, y: jnp.sum(jnp.abs(x[:, None] - y[None]), -1),
    lambda x, y: jnp.max(x[:, None] - y[None], -1),
    lambda x, y: jnp.cos(x @ y.T) + jnp.arange(len(y)) * 1e-2,
]
_PLAIN: list[Callable[[X], X]] = [
    jnp.tanh, jax.nn.gelu, jax.nn.silu, jax.scipy.special.erf, lambda a: jnp.logaddexp(a, 0.0),
    lambda a: jax.scipy.special.gammaln(1.5 + a * a), lambda a: jnp.hypot(a, 1.0),
    lambda a: jnp.abs(jnp.exp(1j * a) + a).astype(a.dtype), lambda a: jax.nn.softmax(a, 0),
    lambda a: jnp.cumsum(a, 0) / 10, lambda a: jnp.sort(a, 0), lambda a: a[::-1], jnp.tril,
    lambda a: a.at[2].set(0.5), lambda a: a.at[3, 2].set(1.0), lambda a: a.at[:, 1].add(a[:, 0]),
    lambda a: a.at[1:5].multiply(2.0), lambda a: a.at[jnp.arange(len(a)) % 7].add(a * 0.1),
    lambda a: a[jnp.arange(len(a)) * 3 % len(a)], lambda a: a[jnp.argsort(a[:, 0])],
    lambda a: jnp.take_along_axis(a, jnp.argsort(-a, 1), 1), lambda a: lax.cummax(a, 1),
    lambda a: jnp.real(jnp.fft.ifft(jnp.fft.fft(a, axis=1) * 0.9, axis=1)).astype(a.dtype),
    lambda a: jnp.minimum(a, jnp.quantile(a, 0.7, axis=1)[:, None]), lambda a: (a - a.mean()) / 2,
    lambda a: lax.associative_scan(jnp.maximum, a, axis=1), lambda a: jnp.diff(a, 1, 1, a[:, :1]),
    lambda a: lax.reduce_window(a, 0.0, lax.add, (1, 3), (1, 1), "SAME") / 3,
]  # fmt: skip
_DRAWN: list[Callable[[X, X], X]] = [
    lambda a, k: a + 0.1 * jax.random.normal(k, a.shape, a.dtype),
    lambda a, k: jnp.where(jax.random.bernoulli(k, 0.8, a.shape), a, 0.0),
    lambda a, k: a * jax.vmap(lambda one: jax.random.uniform(one, (), a.dtype))(
        jax.random.split(k, len(a)))[:, None],
    lambda a, k: jax.random.permutation(k, a, axis=0),
]  # fmt: skip
_NESTED: list[Callable[[Step, Step], Step]] = [
    lambda f, g: lambda a, u, v, k: lax.cond(
        jnp.sum(u) > 0, lambda a: f(a, u, v, k), lambda a: g(a, u, v, k), a),
    lambda f, g: lambda a, u, v, k: lax.fori_loop(
        0, 2, lambda i, s: jnp.tanh(f(s, u, v, jax.random.fold_in(k, i))), a),
    lambda f, g: lambda a, u, v, k: jax.checkpoint(lambda a: f(g(a, u, v, k), u, v, k))(a),
    lambda f, g: lambda a, u, v, k: lax.scan(
        lambda c, row: (jnp.tanh(c + row.mean()), row * c), jnp.zeros((), a.dtype),
        f(a, u, v, k))[1],
    lambda f, g: lambda a, u, v, k: lax.map(
        lambda row: jnp.tanh(row) * jnp.max(row), f(a, u, v, k), batch_size=8),
    lambda f, g: lambda a, u, v, k: jax.jit(lambda a: f(a, u, v, k) + g(a, u, v, k))(a),
]  # fmt: skip
_RESULTS: list[Callable[[X, X, X], X]] = [
    lambda a, u, v: a @ v, lambda a, u, v: u @ a, lambda a, u, v: jnp.max(a, 1),
    lambda a, u, v: lax.top_k(a, 3), lambda a, u, v: jnp.diag(a @ a.T),
    lambda a, u, v: jnp.median(a, 1), lambda a, u, v: jnp.linalg.norm(a),
    lambda a, u, v: lax.scan(lambda c, row: (c + jnp.tanh(row), jnp.sum(row * c)), v, a),
    lambda a, u, v: jnp.linalg.cholesky(a @ a.T + 10 * jnp.eye(len(u), dtype=a.dtype)) @ u,
    lambda a, u, v: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.tanh(a @ (s[1] @ a))), (0, u))[1],
]  # fmt: skip


def _step(rng: np.random.Generator, depth: int = 0) -> Step:
    kind = rng.random()
    if kind < 0.7 or depth > 1:
        plain = _PLAIN[int(rng.integers(len(_PLAIN)))]
        return lambda a, u, v, k: plain(a)
    if kind < 0.8:
        drawn, own = _DRAWN[int(rng.integers(len(_DRAWN)))], int(rng.integers(1000))
        return lambda a, u, v, k: drawn(a, jax.random.fold_in(k, own))
    made = _NESTED[int(rng.integers(len(_NESTED)))]
    return made(_step(rng, depth + 1), _step(rng, depth + 1))


def program(seed: int) -> tuple[Callable[..., Any], tuple[X, ...]]:
    """Return a program and its arguments; equal seeds give equal ones."""
    rng = np.random.default_rng(seed)
    n, m = (int(size) for size in rng.choice([13, 31, 64, 97], 2))
    arrays = [jnp.asarray(rng.normal(size=shape)) for shape in [(n, 3), (m, 3), (n,), (m,)]]
    matrix = _MATRICES[int(rng.integers(len(_MATRICES)))]
    steps = [_step(rng) for _ in range(int(rng.integers(1, 4)))]
    result = _RESULTS[int(rng.integers(len(_RESULTS)))]

    def run(x: X, y: X, u: X, v: X, key: X) -> Any:
        a = matrix(x, y)
        for step in steps:
            a = step(a, u, v, key)
        return result(a, u, v)

    def loss(x: X, y: X, u: X, v: X, key: X) -> X:
        leaves = jax.tree.leaves(run(x, y, u, v, key))
        return sum(jnp.sum(jnp.sin(one)) for one in leaves if one.dtype == x.dtype)

    def moved(x: X, y: X, u: X, v: X, key: X) -> Any:
        return jax.jvp(lambda *given: run(*given, key), (x, y, u, v), (x, y, u, v))

    key = jax.random.key(seed)
    wrap = rng.random()
    if wrap < 0.8 or isinstance(jax.eval_shape(run, *arrays, key), (tuple, list)):
        return (run if wrap < 0.4 else jax.value_and_grad(loss, (0, 1, 2, 3))), (*arrays, key)
    if wrap < 0.9:
        return moved, (*arrays, key)
    batched = (jnp.stack([one, one * 0.5]) for one in arrays)
    return jax.vmap(jax.grad(loss)), (*batched, jax.random.split(key, 2))
