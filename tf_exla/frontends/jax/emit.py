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

from tf_exla.frontends.jax import algebra, movement, radix
from tf_exla.frontends.jax.movement import ints
from tf_exla.frontends.jax.top_k import top_k
from tf_exla.ir.graph import Node, Tensor

X = Any  # an array
Kernel = Callable[..., Any]
"""Called with the node and its operands; returns the result, or a list of several."""


def array_dtype(tensor: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's array."""
    return np.dtype(jnp.dtype(tensor.dtype))


def _plain(function: Callable[..., Any]) -> Kernel:
    return lambda node, *operands: function(*operands)


def _same(node: Node, *operands: X) -> X:
    return operands[0] if len(operands) == 1 else list(operands)


def _reduction(function: Callable[..., Any]) -> Kernel:
    def kernel(node: Node, x: X, axes: X) -> X:
        keeps = bool(node.attrs.get("keep_dims", False))
        return function(x, axis=tuple(int(a) for a in np.ravel(axes)), keepdims=keeps)

    return kernel


def _sum(x: X, **how: Any) -> X:
    return jnp.sum(x, dtype=x.dtype, **how)


def _prod(x: X, **how: Any) -> X:
    return jnp.prod(x, dtype=x.dtype, **how)


def _mean(x: X, **how: Any) -> X:
    count = math.prod(x.shape[axis] for axis in how["axis"])
    return _sum(x, **how) // count if x.dtype.kind in "iu" else jnp.mean(x, **how)


def _extreme(function: Callable[..., Any], worst: Callable[[np.dtype[Any]], Any]) -> Kernel:
    return _reduction(lambda x, **how: function(x, initial=worst(x.dtype), **how))


def least(dtype: Any) -> Any:
    """Return the least value of a dtype, -inf for floats that have it."""
    return _end(dtype, "min", -math.inf)


def greatest(dtype: Any) -> Any:
    """Return the greatest value of a dtype, inf for floats that have it."""
    return _end(dtype, "max", math.inf)


def _end(dtype: Any, name: str, infinity: float) -> Any:
    """Return an end of a dtype's range; integers typed, since JAX takes Python's for an int32."""
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


def _cross_entropy(node: Node, x: X, labels: X) -> list[X]:
    log = jax.nn.log_softmax(x)
    hot = jax.nn.one_hot(labels, x.shape[-1], dtype=x.dtype)
    picked = jnp.take_along_axis(log, labels[..., None], -1)[..., 0]
    return [-picked, jnp.exp(log) - hot]


def _truncate_divide(node: Node, x: X, y: X) -> X:
    if jnp.issubdtype(jnp.result_type(x), jnp.inexact):
        return jnp.trunc(x / y)
    return lax.div(*jnp.broadcast_arrays(x, y))


EMIT: Mapping[str, Kernel] = {
    **{
        name: _plain(getattr(jnp, name))
        for name in (
            "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "cos",
            "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater",
            "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p",
            "logical_and", "logical_not", "logical_or", "maximum", "minimum", "multiply",
            "negative", "not_equal", "ones_like", "reciprocal", "remainder", "round", "sign", "sin",
            "sinh", "sqrt", "square", "subtract", "tan", "tanh", "where", "zeros_like",
        )
    },
    **dict.fromkeys(("ensure_shape", "identity", "identity_n", "snapshot"), _same),
    "add_n": lambda node, *xs: sum(xs[1:], xs[0]),
    "all": _reduction(jnp.all),
    "any": _reduction(jnp.any),
    "arange": lambda node, start, stop, step: jnp.asarray(
        np.arange(start, stop, step, array_dtype(node.output))),
    "argmax": lambda node, x, axis: lax.argmax(x, int(axis) % x.ndim, array_dtype(node.output)),
    "argmin": lambda node, x, axis: lax.argmin(x, int(axis) % x.ndim, array_dtype(node.output)),
    "astype": lambda node, x: lax.convert_element_type(x, array_dtype(node.output)),
    "band_part": algebra.band_part,
    "batch_matmul": algebra.matmul("adj_x", "adj_y"),
    "broadcast_to": lambda node, x, shape: jnp.broadcast_to(x, ints(shape)),
    "cholesky": lambda node, x: lax.linalg.cholesky(x, symmetrize_input=False),
    "concat": lambda node, *xs: jnp.concatenate(xs[:-1], int(xs[-1])),
    "cumprod": _cumulative(lax.cumprod, 1),
    "cumsum": _cumulative(lax.cumsum, 0),
    "einsum": algebra.einsum,
    "erf": _plain(lax.erf),
    "erfc": _plain(lax.erfc),
    "expand_dims": lambda node, x, axis: jnp.expand_dims(x, int(np.ravel(axis)[0])),
    "flip": lambda node, x, axes: jnp.flip(x, ints(axes)),
    "full": lambda node, shape, value: jnp.full(ints(shape), value, array_dtype(node.output)),
    "log_softmax": lambda node, x: jax.nn.log_softmax(x, -1),
    "matmul": algebra.matmul("transpose_a", "transpose_b"),
    "matrix_diag": algebra.matrix_diag,
    "matrix_diag_part": algebra.diagonal,
    "matrix_set_diag": algebra.set_diagonal,
    "max": _extreme(jnp.max, least),
    "max_with_position": _best(lax.argmax, _extreme(jnp.max, least)),
    "mean": _reduction(_mean),
    "min": _extreme(jnp.min, greatest),
    "min_with_position": _best(lax.argmin, _extreme(jnp.min, greatest)),
    "mirror_pad": movement.mirror_pad,
    "pad": movement.pad,
    "pad_with": movement.pad,
    "permute_dims": lambda node, x, axes: jnp.transpose(x, ints(axes)),
    "pow": _plain(jnp.power),
    "prod": _reduction(_prod),
    "radix_counts": radix.counts,
    "radix_step": radix.step,
    "radix_values": radix.values,
    "relu": lambda node, x: jnp.maximum(x, 0),
    "reshape": lambda node, x, shape: jnp.reshape(x, ints(shape)),
    "roll": lambda node, x, shift, axis: jnp.roll(x, ints(shift), ints(axis)),
    "rsqrt": _plain(lax.rsqrt),
    **{name: movement.scatter(update) for name, update in movement.UPDATES.items()},
    "scatter_nd": movement.scatter_nd,
    "scatter_rows": movement.scatter_rows,
    "segment_sum": movement.segment_sum,
    "shape": lambda node, x: np.asarray(np.shape(x), array_dtype(node.output)),
    "sigmoid": _plain(lax.logistic),
    "size": lambda node, x: np.asarray(np.size(x), array_dtype(node.output)),
    "slice": movement.slice_,
    "softmax": lambda node, x: jax.nn.softmax(x, -1),
    "softplus": lambda node, x: jnp.logaddexp(x, jnp.zeros((), x.dtype)),
    "solve_triangular": algebra.solve_triangular,
    "sparse_cross_entropy": _cross_entropy,
    "sort": lambda node, x: lax.sort(x),
    "split": lambda node, axis, x: jnp.split(x, len(node.outputs), int(axis)),
    "squared_difference": lambda node, x, y: jnp.square(jnp.abs(x - y)),
    "squeeze": lambda node, x: jnp.reshape(x, node.output.dims),
    "stack": lambda node, *xs: jnp.stack(xs, int(str(node.attrs.get("axis", 0)))),
    "stop_gradient": _plain(lax.stop_gradient),
    "strided_slice": movement.strided_slice,
    "strided_slice_grad": movement.strided_slice_grad,
    "sum": _reduction(_sum),
    "take": movement.take,
    "tile": lambda node, x, counts: jnp.tile(x, ints(counts)),
    "top_k": lambda node, x, k: top_k(x, int(k)),
    "truncate_divide": _truncate_divide,
    "update_rows": movement.update_rows,
    "vector_norm": _reduction(_vector_norm),
}  # fmt: skip
"""By op. Results are cast to the dtypes of the node's outputs."""
