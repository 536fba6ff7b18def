"""Reads and writes by index, captured from JAX: what they become, and that they mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import check, opaque, rand, total
from jax_x64 import enable_x64

X = Any


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


INDEXING: Mapping[str, tuple[Callable[[X], X], set[str]]] = {
    "slices": (lambda x: (x[2], x[:, 1], x[1:3, ::2], x[-1, -1], x[::-1],
        x[None, 1, ..., 0]), set()),
    "known rows": (lambda x: (x[np.array([3, 1])], x[:, np.array([0, 2])], x[np.array([1, 2, 3])],
        x[np.array([[1, 0], [2, 2]])], x[:, np.array([2, 1, 0])], x[np.array([1])]), set()),
    "rows": (lambda x: (x[_at(x)], x[:, _at(x)], x[_at(x), None], x[_at(x)][:, _at(x)]), set()),
    "row": (lambda x: (x[jnp.argmax(x[0])], x[:, jnp.argmax(x[0])], x[1, jnp.argmax(x[0])]),
        {"lax.dynamic_slice"}),
    "outside": (lambda x: (jnp.take(x, _at(x) * 3 - 4, 0), jnp.take(
        x, _at(x) * 3 - 4, 1, mode="clip"),
        x.at[_at(x) * 3 - 4].get(mode="fill", fill_value=7.0),
        x[jnp.arange(len(x)), jnp.argmin(x, 1) * 9 - 9], x[_at(x)[:, None] * 3 - 4, _at(x) * 5],
        x.at[_at(x)[:, None] * 3 - 4, _at(x) * 5].get(mode="clip"),
        lax.dynamic_slice(x, (5, jnp.argmax(x[0])), (1, x.shape[1]))), set()),
    "points": (lambda x: (x[_at(x), _at(x)], x[jnp.array([1, 2]), jnp.array([0, 2])]),
        {"lax.gather"}),
    "points of own rows": (lambda x: (x[_all(x), _to(x)], x[_all(x), -1 - _to(x)],
        x[_all(x)[:, None], _to(x)[:, None] * np.arange(2)],
        (x[:, None] * x[:, :2, None])[_all(x)[:, None], np.arange(2), _to(x)[:, None]],
        (x[:, None] * x[:, :2, None])[_all(x), :, _to(x)],
        x[_all(x), np.arange(len(x))[::-1] % 3]), set()),
    "points of own columns": (lambda x: (x.T[_to(x), _all(x)], x[None, :][:, _all(x), _to(x)],
        x[_all(x)[None], _to(x) * np.arange(2)[:, None]]), {"lax.gather"}),
    "set in own rows": (lambda x: (x.at[_all(x), _to(x)].set(7.0), x.at[_all(x), _to(x)].max(0.5),
        x.at[_all(x), _to(x)].multiply(x[:, 0], unique_indices=True)),
        {"lax.scatter", "lax.scatter-max", "lax.scatter-mul"}),
    "add in own rows": (lambda x: jnp.zeros_like(x).at[
        _all(x)[:, None], _to(x)[:, None] * np.arange(2)].add(x[:, :2]), set()),
    "rows and columns": (lambda x: (x[jnp.ix_(_at(x), _to(x.T))], x[_at(x), _to(x.T)[:, None]],
        x[_at(x)[:, None], np.array([2, 0])], x[_at(x)[:, None], jnp.arange(x.shape[1])],
        (x[:, None] * x[:, :2, None])[_at(x)[:, None], :, _to(x.T)],
        (x[:, None] * x[:, :2, None])[jnp.ix_(_at(x), np.array([1, 1]), _to(x.T))],
        x[_at(x)[:, None, None], _to(x.T)[:, None] * np.arange(2)]), {"lax.rem"}),
    "add to rows and columns": (lambda x: jnp.zeros_like(x).at[
        jnp.ix_(_at(x), _to(x.T))].add(x[:3] * 2), set()),
    "along": (lambda x: (jnp.take_along_axis(x, jnp.argsort(x, 1), 1), jnp.take_along_axis(
        x, jnp.argmax(x, 1, keepdims=True), 1), jnp.take_along_axis(x, jnp.argsort(x, 0), 0)),
        {"lax.sort", "lax.gather"}),
    "diagonals": (lambda x: (jnp.diagonal(x), jnp.diagonal(x, 1), jnp.diagonal(x, -2),
        jnp.diagonal(x[None] * x[:, :1, None], 0, 1, 2), jnp.trace(x), jnp.diag(x[0]), jnp.diag(x),
        jnp.diag(jnp.diag(x))), set()),
    "triangles": (lambda x: tuple(f(x, k) for f in (jnp.tril, jnp.triu) for k in (-3, -1, 0, 2, 9)),
        set()),
    "set": (lambda x: (x.at[1].set(0.5), x.at[:, 2].set(x[:, 0]), x.at[1:3, 0].set(7.0),
        x.at[0, 0].add(3.0), x.at[::2].set(0.0)), {"lax.dynamic_update_slice", "lax.scatter"}),
    "set diagonal": (lambda x: (x.at[jnp.diag_indices(4)].set(x[0, :4]),
        x.at[jnp.diag_indices(4)].add(2.0), jnp.fill_diagonal(x, 3.0, inplace=False)), set()),
    "add": (lambda x: (jnp.zeros_like(x).at[_at(x)].add(x[:3]),
        jax.ops.segment_sum(x, jnp.argmin(x, 1), 3),
        jnp.zeros(5).at[_at(x) - 1].add(x[:3, 0]), x.at[_at(x)].add(x[:3])), {"lax.scatter-add"}),
    "extremes": (lambda x: (x.at[_at(x)].max(x[:3]),
        jax.ops.segment_max(x, jnp.argmin(x, 1), 3)),
        {"lax.scatter-max"}),
    "update in a loop": (lambda x: lax.fori_loop(
        0, 3, lambda i, y: y.at[i].set(y[i + 1] + x[i]), x),
        {"lax.scatter"}),
    "one hot": (lambda x: jax.nn.one_hot(_at(x), 4) @ x[:4], set()),
}  # fmt: skip
"""Reads and writes by index of a matrix, and the primitives that are left."""


def _at(x: X) -> X:
    return jnp.argmin(x[:3], 1)


def _all(x: X) -> X:
    return jnp.arange(len(x))


def _to(x: X) -> X:
    return jnp.argmin(x, 1)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name: str) -> None:
    function, left = INDEXING[name]
    for shape in ((4, 4), (4, 7), (7, 4)):
        assert opaque(check(function, rand(*shape))) <= left


@pytest.mark.one_of(2, 1)
@pytest.mark.parametrize("name", sorted(set(INDEXING) - {"update in a loop"}))
def test_gradients_of_indexing(name: str) -> None:
    check(jax.grad(lambda x: total(INDEXING[name][0](x))), rand(4, 4), close=1e-9)
