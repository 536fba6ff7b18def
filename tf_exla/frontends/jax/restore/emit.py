"""The ops of the vocabulary in JAX: one function of the node and its operands per op.

Operands that are known statically (axes, shapes, constants) are NumPy arrays, all others JAX
arrays. The functions have the semantics of those in `frontends/numpy/kernels.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.jax.restore.top_k import top_k
from tf_exla.frontends.numpy import radix, shared
from tf_exla.frontends.numpy.shared import Kernel, Update, ints, offset, plain, reduction
from tf_exla.ir.graph import Node, Tensor
from tf_exla.vocabulary.radix import shift_of

X = Any  # an array


def array_dtype(tensor: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's array."""
    return np.dtype(jnp.dtype(tensor.dtype))


def _sum(x: X, **how: Any) -> X:
    return jnp.sum(x, dtype=x.dtype, **how)


def _prod(x: X, **how: Any) -> X:
    return jnp.prod(x, dtype=x.dtype, **how)


def _mean(x: X, **how: Any) -> X:
    count = math.prod(x.shape[axis] for axis in how["axis"])
    return _sum(x, **how) // count if x.dtype.kind in "iu" else jnp.mean(x, **how)


def _extreme(function: Callable[..., Any], worst: Callable[[np.dtype[Any]], Any]) -> Kernel:
    return reduction(lambda x, **how: function(x, initial=worst(x.dtype), **how))


def least(dtype: Any) -> Any:
    """Return the least value of a dtype, -inf for floats that have it."""
    return _end(dtype, "min", -math.inf)


def greatest(dtype: Any) -> Any:
    """Return the greatest value of a dtype, inf for floats that have it."""
    return _end(dtype, "max", math.inf)


def _end(dtype: Any, name: str, infinity: float) -> Any:
    """Return an end of a dtype's range.

    That of integers has their dtype, since JAX would convert a Python integer to int32.
    """
    if jnp.issubdtype(dtype, jnp.integer):
        return np.asarray(getattr(jnp.iinfo(dtype), name), dtype)  # type: ignore[no-untyped-call]
    if jnp.issubdtype(dtype, jnp.bool_):
        return infinity > 0
    # Some floats of eight bits have no infinity.
    if np.isinf(np.asarray(np.inf, dtype).astype(np.float64)):
        return infinity
    return getattr(jnp.finfo(dtype), name)  # type: ignore[no-untyped-call]


def _vector_norm(x: X, **how: Any) -> X:
    return jnp.sqrt(_sum(jnp.square(jnp.abs(x)), **how))


def _best(choose: Callable[..., X], value: Kernel) -> Kernel:
    def kernel(node: Node, x: X, axis: X) -> list[X]:
        index = array_dtype(node.outputs[1])
        return [value(node, x, axis), choose(x, int(np.ravel(axis)[0]) % x.ndim, index)]

    return kernel


def _cumulative(function: Callable[..., X], neutral: int) -> Kernel:
    def kernel(node: Node, x: X, axis: X) -> X:
        at, reverse = int(axis) % x.ndim, bool(node.attrs.get("reverse"))
        made = function(x, axis=at, reverse=reverse)
        if not node.attrs.get("exclusive") or not made.size:
            return made
        first = jnp.full_like(lax.slice_in_dim(made, 0, 1, axis=at), neutral)
        if reverse:
            return jnp.concatenate([lax.slice_in_dim(made, 1, None, axis=at), first], at)
        return jnp.concatenate([first, lax.slice_in_dim(made, 0, -1, axis=at)], at)

    return kernel


def _radix_counts(node: Node, x: X, state: X) -> X:
    """Count digits by adding ones at them: XLA has no faster way; it takes 4 ns per element."""
    size, key = node.output.dims[1], radix.keys(jnp, x).ravel()
    found = (radix.digits(jnp, key, prefix, shift_of(node), size) for prefix in state[0])
    empty = jnp.zeros(size, jnp.int32)
    return jnp.stack([empty.at[one].add(1, mode="drop") for one in found])


def _cross_entropy(node: Node, x: X, labels: X) -> list[X]:
    log = jax.nn.log_softmax(jnp.broadcast_to(x, node.outputs[1].dims))
    return [-(labels * log).sum(-1), jnp.exp(log) - labels]


def _sparse_cross_entropy(node: Node, x: X, labels: X) -> list[X]:
    log = jax.nn.log_softmax(x)
    hot = jax.nn.one_hot(labels, x.shape[-1], dtype=x.dtype)
    picked = jnp.take_along_axis(log, labels[..., None], -1)[..., 0]
    return [-picked, jnp.exp(log) - hot]


def _truncate_divide(node: Node, x: X, y: X) -> X:
    if jnp.issubdtype(jnp.result_type(x), jnp.inexact):
        return jnp.trunc(x / y)
    return lax.div(*jnp.broadcast_arrays(x, y))


def accuracy(node: Node) -> dict[str, Any]:
    """Return the arguments of a product: its precision, as captured, and its result's dtype."""
    return {
        "precision": node.attrs.get("precision"),
        "preferred_element_type": jnp.dtype(node.output.dtype),
    }


def solve_triangular(node: Node, a: X, b: X) -> X:
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (a, b))
    adjoint = bool(node.attrs.get("adjoint"))
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=bool(node.attrs.get("lower", True)),
        transpose_a=adjoint,
        conjugate_a=adjoint and jnp.iscomplexobj(a),
    )


def band_part(node: Node, x: X, lower: X, upper: X) -> X:
    rows = lax.broadcasted_iota(np.int32, x.shape[-2:], 0)
    columns = lax.broadcasted_iota(np.int32, x.shape[-2:], 1)
    kept = jnp.ones((), bool)
    if int(lower) >= 0:
        kept = kept & (rows - columns <= int(lower))
    if int(upper) >= 0:
        kept = kept & (columns - rows <= int(upper))
    return jnp.where(kept, x, jnp.zeros((), x.dtype))


def matrix_diag(node: Node, d: X, k: X, rows: X, columns: X, padding: X) -> X:
    at, n = offset(node, k), d.shape[-1]
    height = n + max(-at, 0) if rows < 0 else int(rows)
    width = n + max(at, 0) if columns < 0 else int(columns)
    # Not by a scatter into zeros: XLA would fold that to a large constant, but it fuses a mask.
    before = max(-at, 0)
    around = [(0, 0)] * (d.ndim - 1) + [(before, height - n - before)]
    rows_of, columns_of = (lax.broadcasted_iota(np.int32, (height, width), k) for k in (0, 1))
    column = jnp.pad(jnp.asarray(d), around)[..., None]
    return jnp.where(columns_of - rows_of == at, column, jnp.asarray(padding, column.dtype))


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
    known = jnp.where(segments < 0, size, segments)  # rows of negative segments are dropped
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


EMIT: Mapping[str, Kernel] = {
    **shared.pointwise(jnp),
    **shared.products(jnp, accuracy),
    **shared.movement(jnp),
    **shared.updates(jnp, UPDATES),
    "reciprocal": plain(jnp.reciprocal),
    "round": plain(jnp.round),
    "arange": lambda node, start, stop, step: jnp.asarray(
        np.arange(start, stop, step, array_dtype(node.output))),
    "argmax": lambda node, x, axis: lax.argmax(x, int(axis) % x.ndim, array_dtype(node.output)),
    "argmin": lambda node, x, axis: lax.argmin(x, int(axis) % x.ndim, array_dtype(node.output)),
    "astype": lambda node, x: lax.convert_element_type(x, array_dtype(node.output)),
    "band_part": band_part,
    "cholesky": lambda node, x: lax.linalg.cholesky(x, symmetrize_input=False),
    "cross_entropy": _cross_entropy,
    "cumprod": _cumulative(lax.cumprod, 1),
    "cumsum": _cumulative(lax.cumsum, 0),
    "erf": plain(lax.erf),
    "erfc": plain(lax.erfc),
    "full": lambda node, shape, value: jnp.full(ints(shape), value, array_dtype(node.output)),
    "log_softmax": lambda node, x: jax.nn.log_softmax(x, -1),
    "matrix_diag": matrix_diag,
    "max": _extreme(jnp.max, least),
    "max_with_position": _best(lax.argmax, _extreme(jnp.max, least)),
    "mean": reduction(_mean),
    "min": _extreme(jnp.min, greatest),
    "min_with_position": _best(lax.argmin, _extreme(jnp.min, greatest)),
    "prod": reduction(_prod),
    "radix_counts": _radix_counts,
    "rsqrt": plain(lax.rsqrt),
    "segment_sum": segment_sum,
    "sigmoid": plain(lax.logistic),
    "slice": slice_,
    "softmax": lambda node, x: jax.nn.softmax(x, -1),
    "solve_triangular": solve_triangular,
    "sparse_cross_entropy": _sparse_cross_entropy,
    "sort": lambda node, x: lax.sort(x),
    "stop_gradient": plain(lax.stop_gradient),
    "sum": reduction(_sum),
    "take": take,
    "top_k": lambda node, x, k: top_k(x, int(k)),
    "truncate_divide": _truncate_divide,
    "vector_norm": reduction(_vector_norm),
}  # fmt: skip
"""The functions by the names of ops. Results are cast to the dtypes of the node's outputs."""
