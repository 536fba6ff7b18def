"""Random JAX programs: matrices between small inputs and small results, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

X = Any  # an array
Program = Callable[..., Any]

_UNARY: list[Callable[[X], X]] = [
    jnp.exp, jnp.tanh, jnp.sin, jnp.abs, jnp.square, jax.nn.relu, jax.nn.sigmoid, jax.nn.softplus,
    lambda a: jnp.sqrt(1 + a * a), lambda a: 1 / (1 + a * a), lambda a: jnp.log1p(a * a),
    lambda a: jnp.clip(a, -1, 1), lambda a: a**3, jnp.floor, jnp.sign, lambda a: -a,
    jax.scipy.special.erf, lambda a: a[:, ::-1], lambda a: jnp.roll(a, 2, 0),
    lambda a: jnp.where(a > 0.3, a, 0.5 * a), lambda a: jax.nn.softmax(a, 1),
    lambda a: a / (1 + jnp.sum(jnp.abs(a), 0)), lambda a: a - jnp.mean(a, 1, keepdims=True),
    lambda a: jnp.cumsum(a, 1), lambda a: jnp.sort(a, 1), lambda a: jnp.max(a, 0) - a,
    jnp.tril, lax.stop_gradient, lambda a: a * (a == jnp.max(a, 1)[:, None]),
    lambda a: jax.nn.logsumexp(a, 1)[:, None] - a, lambda a: jnp.concatenate([a[:5], a[5:]], 0),
]  # fmt: skip
_BINARY: list[Callable[[X, X], X]] = [
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum,
    lambda a, b: a / (1 + b * b), lambda a, b: jnp.where(a > b, a, b * 0.5),
    lambda a, b: a * jnp.mean(b), lambda a, b: a + jnp.sum(b, 1, keepdims=True) * 0.1,
]  # fmt: skip
_RESULTS: list[Callable[[X, X, X], X]] = [
    lambda k, u, v: k @ v, lambda k, u, v: u @ k, lambda k, u, v: jnp.sum(k, 0),
    lambda k, u, v: jnp.max(k, 1), lambda k, u, v: jnp.min(k, 0), lambda k, u, v: jnp.mean(k),
    lambda k, u, v: jnp.argmax(k, 1), lambda k, u, v: lax.top_k(k, 3),
    lambda k, u, v: jnp.var(k, 1),
    lambda k, u, v: jax.nn.logsumexp(k, 0), lambda k, u, v: jnp.any(k > 1, 1),
    lambda k, u, v: (k @ v, jnp.sum(k, 0)), lambda k, u, v: k[3], lambda k, u, v: k[:, 1:4],
    lambda k, u, v: jnp.einsum("ij,i,j->", k, u, v), lambda k, u, v: (k @ k.T) @ u,
    lambda k, u, v: jax.ops.segment_sum(k, jnp.arange(len(u)) % 4, 4) @ v,
    lambda k, u, v: lax.fori_loop(0, 3, lambda i, w: k @ (u @ k) * 0.01 + w * v[0], u),
]  # fmt: skip


def program(seed: int) -> tuple[Program, tuple[np.ndarray, ...]]:
    """Return a program and its arguments; equal seeds give equal ones."""
    rng = np.random.default_rng(seed)
    n, m, d = (int(size) for size in rng.choice([13, 31, 64, 97, 128], 3))
    d = min(d, int(rng.choice([1, 2, 3, 7])))
    dtype = np.float64 if rng.random() < 0.7 else np.float32
    shapes = [(n, d), (m, d), (n,), (m,)]
    args = tuple(rng.normal(size=shape).astype(dtype) for shape in shapes)
    kind = int(rng.integers(3))
    unary = [_UNARY[int(k)] for k in rng.integers(len(_UNARY), size=int(rng.integers(1, 5)))]
    binary = [_BINARY[int(k)] for k in rng.integers(len(_BINARY), size=2)]
    result = _RESULTS[int(rng.integers(len(_RESULTS)))]

    def run(x: X, y: X, u: X, v: X) -> Any:
        squares = jnp.sum((x[:, None] - y[None]) ** 2, -1)
        k = [squares * 0.1, x @ y.T * 0.3, u[:, None] - v[None, :]][kind]
        kept = [k]
        for f in unary:
            k = f(k)
            kept.append(k)
        k = binary[0](k, kept[len(kept) // 2])
        k = binary[1](k, kept[0])
        return result(k, u, v)

    wrap = rng.random()
    if wrap < 0.4:
        return run, args

    def loss(*args: X) -> X:
        leaves = [one for one in jax.tree.leaves(run(*args)) if one.dtype == dtype]
        return sum((jnp.sum(one * jnp.cos(one)) for one in leaves), jnp.zeros((), dtype))

    if wrap < 0.8:
        return jax.value_and_grad(loss, (0, 1, 2, 3)), args
    if wrap < 0.9:
        return lambda *args: jax.jvp(loss, args, args), args
    batched = tuple(np.stack([one, one * 0.5]) for one in args)
    return jax.vmap(jax.grad(loss)), batched
