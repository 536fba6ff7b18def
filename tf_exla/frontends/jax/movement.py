"""Slices, pads, gathers and scatters, in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.numpy.movement import strided_index
from tf_exla.ir.graph import Node

X = Any  # an array
Kernel = Callable[..., X]
Update = Callable[[X, Any, X], X]


def ints(values: X) -> tuple[int, ...]:
    """Return the integers of a statically known operand."""
    return tuple(int(value) for value in np.ravel(values))


def slice_(node: Node, x: X, begin: X, size: X) -> X:
    if isinstance(begin, jax.core.Tracer):
        return lax.dynamic_slice(x, list(begin), node.output.dims)
    at = ints(begin)
    sizes = (n if n >= 0 else have - b for b, n, have in zip(at, ints(size), x.shape, strict=True))
    return lax.slice(jnp.asarray(x), at, [b + n for b, n in zip(at, sizes, strict=True)])


def strided_slice(node: Node, x: X, begin: X, end: X, strides: X) -> X:
    return jnp.asarray(x)[strided_index(node, begin, end, strides)]


def strided_slice_grad(node: Node, shape: X, begin: X, end: X, strides: X, part: X) -> X:
    index = strided_index(node, begin, end, strides)
    return jnp.zeros(ints(shape), part.dtype).at[index].set(part)


def pad(node: Node, x: X, paddings: X, value: X = 0) -> X:
    return jnp.pad(x, np.asarray(paddings), constant_values=value)


def mirror_pad(node: Node, x: X, paddings: X) -> X:
    mode = node.attrs["mode"]
    text = mode.decode() if isinstance(mode, bytes) else str(mode)
    return jnp.pad(x, np.asarray(paddings), mode=text.lower())


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


def scatter(update: Update) -> Kernel:
    def kernel(node: Node, x: X, indices: X, values: X) -> X:
        return update(jnp.asarray(x), tuple(jnp.moveaxis(indices, -1, 0)), values)

    return kernel


def scatter_nd(node: Node, indices: X, values: X, shape: X) -> X:
    return scatter(_add)(node, jnp.zeros(ints(shape), values.dtype), indices, values)


def scatter_rows(node: Node, columns: X, values: X, shape: X) -> X:
    return _by_rows(jnp.zeros(ints(shape), values.dtype), columns, values, _add)


def update_rows(node: Node, x: X, columns: X, values: X) -> X:
    return _by_rows(jnp.asarray(x), columns, values, UPDATES[str(node.attrs["scatter"])])


def _by_rows(x: X, columns: X, values: X, update: Update) -> X:
    lead = np.indices(columns.shape)[:-1]
    return update(x, (*lead, columns), values)


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
