"""Primitives with unusual parameters, converted and restored: results are those of `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import capture

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax.restore import restore

X = Any
S = np.arange(16, dtype="float32").reshape(4, 4) + 1
LONG = np.arange(300, dtype="float32")
FEW = np.array([1, 9])
RNG = np.random.default_rng(0)
Program = tuple[Callable[..., X], tuple[X, ...]]


def _band(k: int) -> Program:
    mask = np.eye(4, k=k, dtype=bool)
    return lambda s: (jnp.trace(s, offset=k), jnp.where(mask, s, 0), jnp.tril(s, k)), (S,)


def _divided(x: int, y: int, dtype: str) -> Program:
    made = np.full(3, x, dtype), np.full(3, y, dtype)
    return lambda s: (s, lax.div(*map(jnp.asarray, made)), lax.rem(*map(jnp.asarray, made))), (S,)


def _extremes(dtype: Any) -> Program:
    return lambda x: (jnp.max(x), jnp.min(x)), (jnp.ones(3, dtype),)


PROGRAMS: Mapping[str, Program] = {
    **{f"diagonal {k}": _band(k) for k in range(-4, 5)},
    "one element on a diagonal": (lambda a: jnp.where(jnp.eye(4, dtype=bool), a, 0), (S[:1, :1],)),
    "identities without elements": (lambda a: (a, jnp.eye(0), jnp.eye(0, 3), jnp.eye(1)), (S,)),
    "function of rows": (lambda s: (s.at[1:3].apply(jnp.exp), s.at[1].apply(jnp.sin)), (S,)),
    "function of a diagonal": (lambda s: s.at[np.arange(4), np.arange(4)].apply(jnp.exp), (S,)),
    "short index": (lambda s, i: s[i], (LONG, np.uint8(200))),
    "short index from the end": (lambda s, i: s[i], (LONG, np.int8(-3))),
    "short indices": (
        lambda s, at: lax.scan(lambda c, i: (c + s[i], s[i]), 0.0, at)[0],
        (LONG, np.array([200, 5], np.uint8))),
    "quotient by zero": _divided(-1, 0, "int32"),
    "quotient of the least": _divided(-128, 7, "int8"),
    "largest of nothing": (lambda s: (s, jnp.max(jnp.arange(0), initial=5)), (S,)),
    "long ramps": (lambda s: (s, jnp.arange(256, dtype="uint8"), lax.iota("int8", 300)), (S,)),
    "scan of nothing": (lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, length=0), (S,)),
    "batches larger than the rows": (
        lambda x: lax.map(lambda r: jnp.sin(r).sum(), x, batch_size=9), (S,)),
    "gradient of that": (
        jax.grad(lambda x: lax.map(lambda r: jnp.sin(r).sum(), x, batch_size=9).sum()), (S,)),
    "fill of integers": (
        lambda x, i: jnp.take(x, i, mode="fill", fill_value=-1), (np.arange(5), FEW)),
    **{f"extremes of {dtype.__name__}": _extremes(dtype) for dtype in (
        jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int4, jnp.uint4, jnp.bfloat16, jnp.int8)},
}  # fmt: skip


def same(found: X, expected: X, close: float = 1e-6) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        wide = np.asarray(one, np.float64), np.asarray(other, np.float64)
        np.testing.assert_allclose(*wide, rtol=close, atol=close)


@pytest.mark.parametrize("name", PROGRAMS)
def test_conversion(name: str) -> None:
    function, arguments = PROGRAMS[name]
    captured = capture(function, *arguments)
    made = jax.jit(restore(captured.graph))(*arguments, *captured.constants)
    same(jax.tree.unflatten(captured.out_tree, made), jax.jit(function)(*arguments))


def _kernel(x: X) -> X:
    """Return a matrix that is not symmetric: rows and columns are cast differently."""
    rows, columns = (x.astype(dtype).astype("float32") for dtype in ("int8", "float16"))
    return jnp.exp(-jnp.abs(rows[:, None] - columns[None]))


CASTS: Mapping[str, Callable[[X], X]] = {
    "to bool and integers": lambda x: (
        jnp.any((k := jnp.rint(x @ x.T)).astype(bool), 1), jnp.sum(k.astype("int32"), 0)),
    "to short floats": lambda x: (
        (k := jnp.tanh(x @ x.T)).astype("bfloat16").max(1), k.astype("float16").max(0)),
    "positions": lambda x: (
        lax.argmax(k := jnp.tanh(x @ x.T), 1, "int16"), lax.argmax(k, 1, "int32")),
    "not symmetric": lambda x: ((k := _kernel(3 * x[:, 0])) @ x, k.T @ x),
    "sums of rows and columns": lambda x: ((k := _kernel(3 * x[:, 0])).sum(1), k.sum(0)),
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CASTS)
def test_casts_to_different_dtypes(name: str) -> None:
    x = RNG.standard_normal((700, 3)).astype("float32")
    function = CASTS[name]
    with pytest.raises(MemoryLimitError) as info:
        tf_exla.jax.jit(function, 1)(x)
    assert info.value.smallest_limit is not None
    for limit in (info.value.smallest_limit, 2 * info.value.smallest_limit):
        same(tf_exla.jax.jit(function, limit)(x), jax.jit(function)(x), 1e-3)
