"""The ops of the vocabulary in NumPy: one function of the node and its operands per op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.numpy import radix, shared
from tf_exla.frontends.numpy.shared import (
    Kernel,
    Update,
    ints,
    offset,
    plain,
    reduction,
    same,
)
from tf_exla.ir.graph import Node, Tensor
from tf_exla.vocabulary.rules.builders import integer

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


def _one_hot(node: Node, indices: X, depth: X, on: X, off: X) -> X:
    hot = indices[..., None] == np.arange(int(depth))
    return np.moveaxis(np.where(hot, on, off), -1, integer(node, "axis", -1))


def _cross_entropy(node: Node, x: X, labels: X) -> list[X]:
    log = _log_softmax(node, np.broadcast_to(x, node.outputs[1].dims))
    return [-(labels * log).sum(-1), np.exp(log) - labels]


def _sparse_cross_entropy(node: Node, x: X, labels: X) -> list[X]:
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
    """Return the k largest elements along the last axis, the largest first, and their positions.

    Of equal elements, the first ones are taken.
    """
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


def solve_triangular(node: Node, a: X, b: X) -> X:
    a = np.tril(a) if node.attrs.get("lower", True) else np.triu(a)
    a = np.conj(np.swapaxes(a, -1, -2)) if node.attrs.get("adjoint") else a
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide = (np.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (a, b))
    return np.linalg.solve(*wide)


def _offsets(x: X) -> X:
    return np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]  # column - row


def band_part(node: Node, x: X, lower: X, upper: X) -> X:
    kept = np.ones(x.shape[-2:], bool)
    if lower >= 0:
        kept &= -_offsets(x) <= lower
    if upper >= 0:
        kept &= _offsets(x) <= upper
    return np.where(kept, x, np.zeros((), x.dtype))


def matrix_diag(node: Node, d: X, k: X, rows: X, columns: X, padding: X) -> X:
    at, n = offset(node, k), d.shape[-1]
    height = n + max(-at, 0) if rows < 0 else int(rows)
    width = n + max(at, 0) if columns < 0 else int(columns)
    made, rows = np.full((*d.shape[:-1], height, width), padding, d.dtype), np.arange(n)
    made[..., rows + max(-at, 0), rows + max(at, 0)] = d
    return made


def slice_(node: Node, x: X, begin: X, size: X) -> X:
    ends = [None if n < 0 else b + n for b, n in zip(ints(begin), ints(size), strict=True)]
    return x[tuple(slice(b, e) for b, e in zip(ints(begin), ends, strict=True))]


def image_patches(node: Node, x: X) -> X:
    """Return for each place of [n, p, q] the elements of its window, zeros outside of the image.

    The last axis of the result has the elements in the order (row, column, channel).
    """
    indices = []
    for axis in (1, 2):
        places, size = node.output.dims[axis], x.shape[axis]
        steps, stride, rate = (ints(node.attrs[n])[axis] for n in ("ksizes", "strides", "rates"))
        reached = (places - 1) * stride + (steps - 1) * rate + 1
        before = max(reached - size, 0) // 2 if node.attrs["padding"] in ("SAME", b"SAME") else 0
        index = np.arange(places)[:, None] * stride + np.arange(steps) * rate - before
        x = np.concatenate([x, np.zeros_like(x.take([0], axis))], axis)
        indices.append(np.where((index >= 0) & (index < size), index, size))
    rows, columns = indices[0][:, None, :, None], indices[1][None, :, None, :]
    return np.reshape(x[:, rows, columns], node.output.dims)


def take(node: Node, params: X, indices: X, axis: X) -> X:
    batch, at = int(str(node.attrs.get("batch_dims", 0))), int(axis)
    at += params.ndim if at < 0 else 0
    if batch < 0:
        batch += indices.ndim
    if not batch:
        return np.take(params, indices, at)
    lead = params.shape[:batch]
    rows = [np.take(params[i], indices[i], at - batch) for i in np.ndindex(*lead)]
    inner = (*params.shape[batch:at], *indices.shape[batch:], *params.shape[at + 1 :])
    return np.asarray(rows, params.dtype).reshape(*lead, *inner)


def segment_sum(node: Node, x: X, segments: X, count: X) -> X:
    inner = x.shape[segments.ndim :]
    made = np.zeros((int(count), *inner), x.dtype)
    known = (segments >= 0) & (segments < int(count))
    np.add.at(made, segments[known], x[known])
    return made


def _at(update: Callable[[X, Any, X], None]) -> Update:
    def updated(x: X, index: Any, values: X) -> X:
        made = x.copy()
        update(made, index, values)
        return made

    return updated


UPDATES: Mapping[str, Update] = {
    "scatter_add": _at(np.add.at),
    "scatter_max": _at(np.maximum.at),
    "scatter_min": _at(np.minimum.at),
    "scatter_subtract": _at(np.subtract.at),
    "scatter_update": _at(np.ndarray.__setitem__),
}


KERNELS: Mapping[str, Kernel] = {
    **shared.pointwise(np),
    **shared.products(np, lambda node: {}),
    **shared.movement(np),
    **shared.updates(np, UPDATES),
    "round": plain(np.rint),
    **dict.fromkeys(
        ("check_numerics", "prevent_gradient", "read_variable", "stop_gradient"), same
    ),
    "arange": lambda node, start, stop, step: np.arange(start, stop, step, start.dtype),
    "argmax": lambda node, x, axis: np.argmax(x, int(axis)),
    "argmin": lambda node, x, axis: np.argmin(x, int(axis)),
    "astype": lambda node, x: x.astype(array_dtype(node.output)),
    "band_part": band_part,
    "cholesky": plain(np.linalg.cholesky),
    "constant": lambda node: np.asarray(node.attrs["value"]),
    "cross_entropy": _cross_entropy,
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
    "image_patches": image_patches,
    "matrix_diag": matrix_diag,
    "max": reduction(np.max),
    "max_with_position": _best(np.argmax),
    "mean": reduction(_mean),
    "min": reduction(np.min),
    "min_with_position": _best(np.argmin),
    "nonzero": lambda node, x: np.argwhere(x),
    "one_hot": _one_hot,
    "prod": reduction(np.prod),
    "radix_counts": radix.counts,
    "reciprocal": lambda node, x: 1 / x,
    "rsqrt": lambda node, x: 1 / np.sqrt(x),
    "segment_sum": segment_sum,
    "sigmoid": lambda node, x: 1 / (1 + np.exp(-x)),
    "slice": slice_,
    "softmax": _softmax,
    "solve_triangular": solve_triangular,
    "sparse_cross_entropy": _sparse_cross_entropy,
    "sort": lambda node, x: np.sort(x, -1),
    "sum": reduction(_short_sum),
    "take": take,
    "top_k": lambda node, x, k: top_k(x, int(k)),
    "truncate_divide": lambda node, x, y: np.trunc(x / y) if x.dtype.kind == "f" else (
        np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))),
    "vector_norm": reduction(lambda x, **how: np.sqrt(np.sum(np.square(np.abs(x)), **how))),
}  # fmt: skip
"""The kernels by the names of ops. Results are cast to the dtypes of the node's outputs."""
