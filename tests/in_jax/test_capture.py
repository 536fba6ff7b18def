"""Jaxprs as graphs: programs captured and evaluated by NumPy mean what JAX computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import capture, check, kernel, rand, scan, spd, total
from jax_x64 import enable_x64

X = Any


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def _loop(x: X) -> X:
    return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.sin(s[1]) * x), (0, x))[1]


def _choices(x: X) -> X:
    one = lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: jnp.sin(v), x)
    two = lax.switch(jnp.argmax(x[0]), [jnp.sin, jnp.cos, lambda v: v, jnp.exp], x)
    return one, two


ONE: Mapping[str, Callable[[X], X]] = {
    "elementwise": lambda x: jnp.tanh(x) * 2 + jnp.exp(-x * x) / 3 - jnp.abs(x) ** 3 + x**-2,
    "broadcast": lambda x: x[:, None] * x[None] + x[..., 0][:, None, None] + jnp.ones((2, 1, 1, 1)),
    "comparisons": lambda x: jnp.where((x > 0) & (x <= 1) | ~(x != x), x, jnp.nan_to_num(x)),
    "clip": lambda x: (jnp.clip(x, -0.5, 0.5), jnp.sign(x), jnp.round(x), jnp.floor(x)),
    "reductions": lambda x: (
        x.sum(), x.mean(0), x.var(1), x.max(-1), x.min(), x.prod(0), (x > 0).any(), (x > 0).all(1),
        jnp.std(x, keepdims=True), jnp.linalg.norm(x, axis=1),
    ),
    "softmax": lambda x: (
        jax.nn.softmax(x), jax.nn.log_softmax(x), jax.nn.logsumexp(x, 0), jax.nn.relu(x),
        jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.standardize(x),
    ),
    "movement": lambda x: (
        x.T, x.reshape(-1), x.ravel()[::2], jnp.stack([x, x], 1), jnp.concatenate([x, x + 1], 1),
        x[:, ::-1], jnp.flip(x), jnp.roll(x, 1, 0), jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 0),
        jnp.pad(x, ((1, 0), (0, 2))), jnp.pad(x, 1, constant_values=3.0), x[1:, 1:], x[-1],
        jnp.moveaxis(x[None], 0, 2), jnp.split(x, [1], 0), jnp.swapaxes(x, 0, 1), x[..., None],
        *jnp.unstack(x, axis=1),
    ),
    "products": lambda x: (
        x @ x.T, x.T @ x, x @ x[0], x[0] @ x[0], jnp.outer(x[0], x[1]),
        jnp.einsum("ij,kj,k->ik", x, x, x[:, 0]), jnp.einsum("ij,ij->i", x, x),
        jnp.tensordot(x[None], x[:, None], ((1, 2), (0, 2))), jnp.kron(x, x),
        jnp.matmul(x[None] * jnp.ones((3, 1, 1)), x.T),
        jnp.einsum("bij,bkj->bik", x[None], x[None]),
        jnp.einsum("bij,bkj->bki", x[None], x[None]), jnp.vdot(x, x),
    ),
    "kernel": lambda x: kernel(x, x) @ x[:, 0],
    "solves": lambda x: (
        jnp.linalg.cholesky(spd(x)), jax.scipy.linalg.cho_solve(
            jax.scipy.linalg.cho_factor(spd(x), lower=True), x),
        jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(spd(x)), x, lower=True),
        jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(spd(x)), x[:, 0], trans=1,
            lower=True),
    ),
    "identities": lambda x: (jnp.eye(4, 5, 1) * 2.0, spd(x) + 3 * jnp.eye(x.shape[0])),
    "cumulative": lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cumsum(x, 1, reverse=True)),
    "search": lambda x: (jnp.argmax(x, 1), jnp.argmin(x), lax.top_k(x, 1)),
    "calls": lambda x: (jax.jit(jnp.sin)(x), jax.checkpoint(jnp.cos)(x), jax.nn.relu(x)),
    "while": _loop,
    "scan": scan,
    "scan reversed": lambda x: scan(x, reverse=True),
    "map": lambda x: lax.map(lambda row: jnp.outer(row, row), x),
    "choices": _choices,
    "conjugate gradients": lambda x: jax.scipy.sparse.linalg.cg(
        lambda v: spd(x) @ v, x[:, 0], maxiter=3)[0],
    "pytree": lambda x: {"a": x, "b": (x.sum(), 2.0, jnp.arange(3))},
}  # fmt: skip
"""Functions of one matrix of real numbers."""


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ONE)
def test_programs(name: str, dtype: str) -> None:
    if name == "conjugate gradients" and dtype == "float32":
        pytest.skip("JAX has weak types there")
    for shape in ((5, 3), (2, 1)):
        check(ONE[name], rand(*shape, dtype=dtype), close=2e-5 if dtype == "float32" else 1e-12)


DERIVED: Mapping[str, Callable[[Callable[..., X]], Callable[..., X]]] = {
    "gradient": lambda f: jax.grad(f),
    "second order": lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (jnp.cos(x),)),
    "by example": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, x * 2])),
}


@pytest.mark.each_value
@pytest.mark.parametrize("how", DERIVED)
@pytest.mark.parametrize("name", sorted(set(ONE) - {"while", "pytree", "conjugate gradients"}))
def test_derivatives(name: str, how: str) -> None:
    check(DERIVED[how](lambda x: total(ONE[name](x))), rand(4, 3), close=1e-9)


def test_effects_happen_once_and_in_order() -> None:
    seen: list[float] = []

    def function(x: X) -> X:
        jax.debug.callback(lambda v: seen.append(float(v)), x[0], ordered=True)
        y = jax.pure_callback(lambda v: np.sin(v), x, x)
        jax.debug.callback(lambda v: seen.append(float(v)), y[0], ordered=True)
        return lax.fori_loop(0, 2, lambda i, v: _noted(v, seen), y)

    captured = capture(function, rand(3))
    stateful = [node.op for node in captured.graph.nodes if node.stateful]
    assert stateful == [
        "lax.debug_callback", "lax.pure_callback", "lax.debug_callback", "while"
    ]  # fmt: skip


def _noted(v: X, seen: list[float]) -> X:
    jax.debug.callback(lambda one: seen.append(float(one)), v[0])
    return v + 1


def test_a_product_is_what_rewrites_look_for() -> None:
    captured = check(lambda x, y, v: kernel(x, y) @ v, rand(5, 3), rand(7, 3), rand(7))
    ops = [node.op for node in captured.graph.nodes if node.op != "constant"]
    assert ops == [
        "expand_dims", "expand_dims", "subtract", "square", "sum", "negative", "divide", "exp",
        "expand_dims", "matmul", "squeeze",
    ]  # fmt: skip


def test_arguments_and_results() -> None:
    weak = capture(lambda x, n: {"a": x["w"] * n, "b": n}, {"w": jnp.ones(3)}, 2.0)
    assert [one.weak_type for one in weak.in_avals] == [False, True]
    assert [one.weak_type for one in weak.out_avals] == [False, True]
    assert [one.name for one in weak.graph.inputs] == ["x['w']", "n"]
    shapes = capture(jnp.sin, jax.ShapeDtypeStruct((3, 5), np.float32))
    assert shapes.graph.outputs[0].dims == (3, 5)
    large = np.arange(5000.0)
    closed = check(lambda x: x + large, rand(5000))
    assert closed.inputs == 1
    assert len(closed.graph.inputs) == 2 == 1 + len(closed.constants)


def test_the_source_is_the_users_line() -> None:
    captured = capture(lambda x: kernel(x, x), rand(3, 2))
    sources = {node.op: node.source for node in captured.graph.nodes}
    assert "jax_captured.py" in sources["exp"]
    assert sources["exp"].endswith("in kernel")
