"""Slices, pads, gathers and scatters, in JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.numpy.shared import Update, ints
from tf_exla.ir.graph import Node

X = Any  # an array


def slice_(node: Node, x: X, begin: X, size: X) -> X:
    if isinstance(begin, jax.core.Tracer):
        return lax.dynamic_slice(x, list(begin), node.output.dims)
    at = ints(begin)
    sizes = (n if n >= 0 else have - b for b, n, have in zip(at, ints(size), x.shape, strict=True))
    return lax.slice(jnp.asarray(x), at, [b + n for b, n in zip(at, sizes, strict=True)])


def take(node: Node, params: X, indices: X, axis: X) -> X:
    batch, at = int(str(node.attrs.get("batch_dims", 0))), int(axis)
    at += params.ndim if at < 0 else 0
    batch += indices.ndim if batch < 0 else 0
    mode = str(node.attrs.get("mode", "clip"))

    def rows(one: X, places: X) -> X:
        return jnp.take(one, places, at - batch, mode=mode)

    for _ in range(batch):
        rows = jax.vmap(rows)
    return rows(jnp.asarray(params), jnp.asarray(indices))


def segment_sum(node: Node, x: X, segments: X, count: X) -> X:
    size = int(count)
    known = jnp.where(segments < 0, size, segments)  # rows outside are dropped
    made = jnp.zeros((size, *x.shape[segments.ndim :]), x.dtype)
    return made.at[known].add(x, mode="drop")


def _add(x: X, index: Any, values: X) -> X:
    return x.at[index].max(values) if x.dtype == np.bool_ else x.at[index].add(values)


UPDATES: Mapping[str, Update] = {
    "scatter_add": _add,
    "scatter_max": lambda x, index, values: x.at[index].max(values),
    "scatter_min": lambda x, index, values: x.at[index].min(values),
    "scatter_subtract": lambda x, index, values: x.at[index].add(-values),
    "scatter_update": lambda x, index, values: x.at[index].set(values),
}
