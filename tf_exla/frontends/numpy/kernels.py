"""The ops of the vocabulary in NumPy: one function of the node and its operands per op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.numpy import algebra, movement, radix
from tf_exla.frontends.numpy.movement import ints
from tf_exla.ir.graph import Node, Tensor
from tf_exla.vocabulary.radix import shift_of

Kernel = Callable[..., Any]
"""Called with the node and its operands; returns the result, or a list of several."""
X = Any  # an array


def array_dtype(tensor: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's array."""
    if tensor.dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(object if tensor.dtype == "string" else tensor.dtype)


def _plain(function: Callable[..., Any]) -> Kernel:
    return lambda node, *operands: function(*operands)


def _same(node: Node, *operands: X) -> X:
    return operands[0] if len(operands) == 1 else list(operands)


def _keeps(node: Node) -> bool:
    return bool(node.attrs.get("keep_dims", False))


def _reduction(function: Callable[..., Any]) -> Kernel:
    def kernel(node: Node, x: X, axes: X) -> X:
        return function(x, axis=tuple(int(a) for a in np.ravel(axes)), keepdims=_keeps(node))

    return kernel


def _short_sum(x: X, **how: Any) -> X:
    wide = np.float32 if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x.dtype
    return np.sum(x, dtype=wide, **how)


def _mean(x: X, **how: Any) -> X:
    count = math.prod(x.shape[axis] for axis in how["axis"])
    total = np.sum(x, **how)
    return total // count if total.dtype.kind in "iu" else total / count


def _softmax(node: Node, x: X) -> X:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax(node: Node, x: X) -> X:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _cross_entropy(node: Node, x: X, labels: X) -> list[X]:
    log = _log_softmax(node, x)
    at = np.arange(len(x)), labels
    gradient = np.exp(log)
    gradient[at] -= 1
    return [-log[at], gradient]


def _cumulative(function: Callable[..., Any], neutral: int) -> Kernel:
    def kernel(node: Node, x: X, axis: X) -> X:
        at = int(axis)
        x = np.flip(x, at) if node.attrs.get("reverse") else x
        made = function(x, axis=at, dtype=x.dtype)
        if node.attrs.get("exclusive") and made.size:
            first = np.full_like(np.take(made, [0], at), neutral)
            made = np.concatenate([first, np.delete(made, -1, at)], at)
        return np.flip(made, at) if node.attrs.get("reverse") else made

    return kernel


def _best(choose: Callable[..., Any]) -> Kernel:
    def kernel(node: Node, x: X, axis: X) -> list[X]:
        places = choose(x, axis=int(np.ravel(axis)[0]))
        at = np.expand_dims(places, int(np.ravel(axis)[0]))
        return [np.take_along_axis(x, at, int(np.ravel(axis)[0])).reshape(places.shape), places]

    return kernel


def top_k(x: X, k: int) -> list[X]:
    """Return the k largest along the last axis, the first of equal ones, and their positions."""
    ascending = x if x.dtype.kind in "iu" else -x
    if x.dtype.kind in "iu":
        ascending = -x.astype("int64")
    places = np.argsort(ascending, axis=-1, kind="stable")[..., :k]
    return [np.take_along_axis(x, places, -1), places]


# Lists of tensors are Python lists, with None for items that were never written.


def _list_get(node: Node, items: list[Any], index: X, shape: X) -> X:
    item = items[int(index)]
    return np.zeros(node.output.dims, array_dtype(node.output)) if item is None else item


def _list_set(node: Node, items: list[Any], index: X, item: X) -> list[Any]:
    places = [*items, *[None] * (int(index) + 1 - len(items))]
    return [[*places[: int(index)], item, *places[int(index) + 1 :]]]


def _list_stack(node: Node, items: Sequence[Any], shape: X) -> X:
    known = next((item for item in items if item is not None), None)
    like = np.zeros(ints(shape)) if known is None else np.zeros_like(known)
    return np.stack([like if item is None else item for item in items]) if items else (
        np.zeros((0, *like.shape))
    )  # fmt: skip


def _erf(x: X) -> X:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


KERNELS: Mapping[str, Kernel] = {
    **{
        name: _plain(getattr(np, there))
        for name, there in {
            "abs": "abs", "acos": "arccos", "acosh": "arccosh", "add": "add", "asin": "arcsin",
            "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh",
            "ceil": "ceil", "cos": "cos", "cosh": "cosh", "equal": "equal", "exp": "exp",
            "expm1": "expm1", "floor": "floor", "floor_divide": "floor_divide",
            "greater": "greater", "greater_equal": "greater_equal", "isfinite": "isfinite",
            "isinf": "isinf", "isnan": "isnan", "less": "less", "less_equal": "less_equal",
            "log": "log", "log1p": "log1p", "logical_and": "logical_and",
            "logical_not": "logical_not", "logical_or": "logical_or", "maximum": "maximum",
            "minimum": "minimum", "multiply": "multiply", "negative": "negative",
            "not_equal": "not_equal", "ones_like": "ones_like", "pow": "power",
            "remainder": "mod", "round": "rint", "sign": "sign", "sin": "sin", "sinh": "sinh",
            "sqrt": "sqrt", "square": "square", "subtract": "subtract", "tan": "tan",
            "tanh": "tanh", "where": "where", "zeros_like": "zeros_like",
        }.items()
    },
    **dict.fromkeys(
        ("check_numerics", "ensure_shape", "identity", "identity_n", "prevent_gradient",
         "read_variable", "snapshot", "stop_gradient"), _same,
    ),
    "add_n": lambda node, *xs: sum(xs[1:], xs[0]),
    "all": _reduction(np.all),
    "any": _reduction(np.any),
    "arange": lambda node, start, stop, step: np.arange(start, stop, step, start.dtype),
    "argmax": lambda node, x, axis: np.argmax(x, int(axis)),
    "argmin": lambda node, x, axis: np.argmin(x, int(axis)),
    "astype": lambda node, x: x.astype(array_dtype(node.output)),
    "band_part": algebra.band_part,
    "batch_matmul": algebra.matmul("adj_x", "adj_y"),
    "broadcast_to": lambda node, x, shape: np.broadcast_to(x, ints(shape)),
    "cholesky": _plain(np.linalg.cholesky),
    "concat": lambda node, *xs: np.concatenate(xs[:-1], int(xs[-1])),
    "constant": lambda node: np.asarray(node.attrs["value"]),
    "cumprod": _cumulative(np.cumprod, 1),
    "cumsum": _cumulative(np.cumsum, 0),
    "divide": _plain(np.divide),
    "einsum": algebra.einsum,
    "erf": _plain(_erf),
    "erfc": lambda node, x: 1 - _erf(x),
    "expand_dims": lambda node, x, axis: np.expand_dims(x, int(np.ravel(axis)[0])),
    "flip": lambda node, x, axes: np.flip(x, ints(axes)),
    "full": lambda node, shape, value: np.full(ints(shape), value),
    "list_empty": lambda node, shape, most: [[]],
    "list_from_tensor": lambda node, x, shape: [list(x)],
    "list_get": _list_get,
    "list_pop": lambda node, items, shape: [items[:-1], items[-1]],
    "list_push": lambda node, items, item: [[*items, item]],
    "list_reserve": lambda node, shape, count: [[None] * int(count)],
    "list_set": _list_set,
    "list_stack": _list_stack,
    "log_softmax": _log_softmax,
    "matmul": algebra.matmul("transpose_a", "transpose_b"),
    "image_patches": movement.image_patches,
    "matrix_diag": algebra.matrix_diag,
    "matrix_diag_part": algebra.diagonal,
    "matrix_set_diag": algebra.set_diagonal,
    "max": _reduction(np.max),
    "max_with_position": _best(np.argmax),
    "mean": _reduction(_mean),
    "min": _reduction(np.min),
    "min_with_position": _best(np.argmin),
    "mirror_pad": movement.mirror_pad,
    "nonzero": lambda node, x: np.argwhere(x),
    "pad": movement.pad,
    "pad_with": movement.pad,
    "permute_dims": lambda node, x, axes: np.transpose(x, ints(axes)),
    "prod": _reduction(np.prod),
    "radix_counts": radix.counts,
    "radix_step": lambda node, counts, state: radix.step(np, counts, state, shift_of(node)),
    "radix_values": lambda node, state: radix.values(np, state),
    "reciprocal": lambda node, x: 1 / x,
    "reshape": lambda node, x, shape: np.reshape(x, ints(shape)),
    "relu": lambda node, x: np.maximum(x, 0),
    "roll": lambda node, x, shift, axis: np.roll(x, ints(shift), ints(axis)),
    "rsqrt": lambda node, x: 1 / np.sqrt(x),
    **{name: movement.scatter(update) for name, update in movement.KERNEL_OF_UPDATE.items()},
    "scatter_nd": movement.scatter_nd,
    "scatter_rows": movement.scatter_rows,
    "segment_sum": movement.segment_sum,
    "shape": lambda node, x: np.asarray(np.shape(x)),
    "sigmoid": lambda node, x: 1 / (1 + np.exp(-x)),
    "size": lambda node, x: np.asarray(np.size(x)),
    "slice": movement.slice_,
    "softmax": _softmax,
    "softplus": lambda node, x: np.logaddexp(0, x),
    "solve_triangular": algebra.solve_triangular,
    "sparse_cross_entropy": _cross_entropy,
    "split": movement.split,
    "squared_difference": lambda node, x, y: np.square(np.abs(x - y)),
    "sort": lambda node, x: np.sort(x, -1),
    "squeeze": lambda node, x: np.reshape(x, node.output.dims),
    "stack": lambda node, *xs: np.stack(xs, int(str(node.attrs.get("axis", 0)))),
    "strided_slice": movement.strided_slice,
    "strided_slice_grad": movement.strided_slice_grad,
    "sum": _reduction(_short_sum),
    "take": movement.take,
    "tile": lambda node, x, counts: np.tile(x, ints(counts)),
    "top_k": lambda node, x, k: top_k(x, int(k)),
    "truncate_divide": lambda node, x, y: np.trunc(x / y) if x.dtype.kind == "f" else (
        np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))),
    "update_rows": movement.update_rows,
    "vector_norm": _reduction(lambda x, **how: np.sqrt(np.sum(np.square(np.abs(x)), **how))),
}  # fmt: skip
"""By op of the vocabulary. Results are cast to the dtypes of the node's outputs."""
