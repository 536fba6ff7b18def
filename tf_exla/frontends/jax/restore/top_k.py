"""The largest elements of rows, without sorting them.

On CPUs, XLA selects from rows of float32, but sorts whole rows of float64, and calls a function for
each comparison: 475 ns per element, while a pass over the elements takes 5. So the k groups of
neighbouring elements with the largest maxima are found first. They contain the k largest elements.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from tf_exla.frontends.jax.held import hold
from tf_exla.frontends.numpy import radix

X = Any  # an array
_PASSES = 16
"""The most passes over a row that a selection may take: a fifth of the time of a sort."""
_LEAST = -(2**63)
"""The least integer."""


def top_k(x: X, k: int) -> tuple[X, X]:
    """Return the k largest elements along the last axis and their positions, as `lax.top_k` does.

    Equal elements keep their order; NaN is the largest, and 0 is larger than -0.
    """
    if not _selects(x, k):
        values, places = lax.top_k(x, k)
        return values, places
    x = hold(x)
    count = x.shape[-1]
    # k steps search the maxima of groups, and k steps the elements of k groups. With this size,
    # there are about as many maxima as elements.
    size = max(1, round(math.sqrt(count / k)))
    groups = -(-count // size)
    padding = [(0, 0)] * (x.ndim - 1) + [(0, groups * size - count)]
    keys = jnp.pad(_ordered(x), padding, constant_values=_LEAST)
    keys = keys.reshape(*x.shape[:-1], groups, size)
    chosen = jnp.sort(_largest(keys.max(-1), min(k, groups)), -1)
    candidates = jnp.take_along_axis(keys, chosen[..., None], -2)
    at = _largest(candidates.reshape(*x.shape[:-1], candidates.shape[-2] * size), k)
    places = jnp.take_along_axis(chosen, at // size, -1) * size + at % size
    return jnp.take_along_axis(x, places, -1), places


def _selects(x: X, k: int) -> bool:
    """Return whether selection is faster than XLA's own top-k."""
    count = x.shape[-1]
    if x.dtype != jnp.float64 or not x.size or not 0 < k < count:
        return False
    return bool(2 * k * math.sqrt(k * count) <= _PASSES * count)


def _ordered(x: X) -> X:
    """Return integers in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    return radix.in_order(jnp, lax.bitcast_convert_type(x, jnp.int64))


def _largest(keys: X, k: int) -> X:
    """Return the positions of the k largest integers along the last axis, the largest first."""
    number = lax.broadcasted_iota(jnp.int32, keys.shape, keys.ndim - 1)

    def step(taken: X, state: tuple[X, X]) -> tuple[X, X]:
        left, found = state
        at = lax.argmax(left, left.ndim - 1, jnp.int32)[..., None]
        found = lax.dynamic_update_slice_in_dim(found, at, taken, -1)
        return jnp.where(number == at, _LEAST, left), found

    empty = jnp.zeros((*keys.shape[:-1], k), jnp.int32)
    made: X = lax.fori_loop(0, k, step, (keys, empty))[1]
    return made
