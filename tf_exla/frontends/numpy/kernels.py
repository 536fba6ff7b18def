"""The ops of the vocabulary in NumPy: one function of the node and its operands per op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.numpy import algebra, movement, radix, shared
from tf_exla.frontends.numpy.shared import Kernel, ints, plain, reduction, same
from tf_exla.ir.graph import Node, Tensor

X = Any  # an array


def array_dtype(tensor: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's array."""
    if tensor.dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(object if tensor.dtype == "string" else tensor.dtype)


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
    **shared.pointwise(np),
    **shared.products(np, lambda node: {}),
    **shared.movement(np),
    **shared.updates(np, movement.UPDATES),
    "round": plain(np.rint),
    **dict.fromkeys(
        ("check_numerics", "prevent_gradient", "read_variable", "stop_gradient"), same
    ),
    "arange": lambda node, start, stop, step: np.arange(start, stop, step, start.dtype),
    "argmax": lambda node, x, axis: np.argmax(x, int(axis)),
    "argmin": lambda node, x, axis: np.argmin(x, int(axis)),
    "astype": lambda node, x: x.astype(array_dtype(node.output)),
    "band_part": algebra.band_part,
    "cholesky": plain(np.linalg.cholesky),
    "constant": lambda node: np.asarray(node.attrs["value"]),
    "cumprod": _cumulative(np.cumprod, 1),
    "cumsum": _cumulative(np.cumsum, 0),
    "erf": plain(_erf),
    "erfc": lambda node, x: 1 - _erf(x),
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
    "image_patches": movement.image_patches,
    "matrix_diag": algebra.matrix_diag,
    "max": reduction(np.max),
    "max_with_position": _best(np.argmax),
    "mean": reduction(_mean),
    "min": reduction(np.min),
    "min_with_position": _best(np.argmin),
    "nonzero": lambda node, x: np.argwhere(x),
    "prod": reduction(np.prod),
    "radix_counts": radix.counts,
    "reciprocal": lambda node, x: 1 / x,
    "rsqrt": lambda node, x: 1 / np.sqrt(x),
    "segment_sum": movement.segment_sum,
    "sigmoid": lambda node, x: 1 / (1 + np.exp(-x)),
    "slice": movement.slice_,
    "softmax": _softmax,
    "solve_triangular": algebra.solve_triangular,
    "sparse_cross_entropy": _cross_entropy,
    "sort": lambda node, x: np.sort(x, -1),
    "sum": reduction(_short_sum),
    "take": movement.take,
    "top_k": lambda node, x, k: top_k(x, int(k)),
    "truncate_divide": lambda node, x, y: np.trunc(x / y) if x.dtype.kind == "f" else (
        np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))),
    "vector_norm": reduction(lambda x, **how: np.sqrt(np.sum(np.square(np.abs(x)), **how))),
}  # fmt: skip
"""By op of the vocabulary. Results are cast to the dtypes of the node's outputs."""
