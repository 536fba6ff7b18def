"""Slices, pads, gathers and scatters, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tf_exla.ir.graph import Node

X = Any  # an array
Kernel = Callable[..., X]


def ints(values: X) -> tuple[int, ...]:
    return tuple(int(value) for value in np.ravel(values))


def slice_(node: Node, x: X, begin: X, size: X) -> X:
    ends = [None if n < 0 else b + n for b, n in zip(ints(begin), ints(size), strict=True)]
    return x[tuple(slice(b, e) for b, e in zip(ints(begin), ends, strict=True))]


def image_patches(node: Node, x: X) -> X:
    """Stack the elements that each place of [n, p, q] reads, zeros outside: k, l, channels."""
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


def strided_index(node: Node, begin: X, end: X, strides: X, at: int = 0) -> tuple[Any, ...]:
    """Return the index of a `strided_slice`, with its masks."""

    def has(mask: str, k: int) -> bool:
        return bool(int(str(node.attrs.get(f"{mask}_mask", 0))) >> k & 1)

    index: list[Any] = []
    for k, (b, e, s) in enumerate(zip(ints(begin), ints(end), ints(strides), strict=True)):
        if has("ellipsis", k):
            index.append(...)
        elif has("new_axis", k):
            index.append(None)
        elif has("shrink_axis", k):
            index.append(b)
        else:
            index.append(slice(None if has("begin", k) else b, None if has("end", k) else e, s))
    return tuple(index)


def strided_slice(node: Node, x: X, begin: X, end: X, strides: X) -> X:
    return x[strided_index(node, begin, end, strides)]


def strided_slice_grad(node: Node, shape: X, begin: X, end: X, strides: X, part: X) -> X:
    made = np.zeros(ints(shape), part.dtype)
    made[strided_index(node, begin, end, strides)] = part
    return made


def pad(node: Node, x: X, paddings: X, value: X = 0) -> X:
    return np.pad(x, np.asarray(paddings), constant_values=value)


def mirror_pad(node: Node, x: X, paddings: X) -> X:
    mode = node.attrs["mode"]
    text = mode.decode() if isinstance(mode, bytes) else str(mode)
    return np.pad(x, np.asarray(paddings), mode=text.lower())  # type: ignore[call-overload]


def split(node: Node, axis: X, x: X) -> list[X]:
    return np.split(x, len(node.outputs), int(axis))


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


def scatter(update: Callable[[X, Any, X], None]) -> Kernel:
    def kernel(node: Node, x: X, indices: X, values: X) -> X:
        made = x.copy()
        update(made, tuple(np.moveaxis(indices, -1, 0)), values)
        return made

    return kernel


def scatter_nd(node: Node, indices: X, values: X, shape: X) -> X:
    return scatter(np.add.at)(node, np.zeros(ints(shape), values.dtype), indices, values)


def segment_sum(node: Node, x: X, segments: X, count: X) -> X:
    inner = x.shape[segments.ndim :]
    made = np.zeros((int(count), *inner), x.dtype)
    known = (segments >= 0) & (segments < int(count))
    np.add.at(made, segments[known], x[known])
    return made


def scatter_rows(node: Node, columns: X, values: X, shape: X) -> X:
    return _by_rows(np.zeros(ints(shape), values.dtype), columns, values, np.add.at)


def update_rows(node: Node, x: X, columns: X, values: X) -> X:
    update = KERNEL_OF_UPDATE[str(node.attrs["scatter"])]
    return _by_rows(x.copy(), columns, values, update)


def _by_rows(made: X, columns: X, values: X, update: Callable[[X, Any, X], None]) -> X:
    lead = np.indices(columns.shape)[:-1]
    update(made, (*lead, columns), values)
    return made


def _assign(x: X, index: Any, values: X) -> None:
    x[index] = values


KERNEL_OF_UPDATE: Mapping[str, Callable[[X, Any, X], None]] = {
    "scatter_add": np.add.at,
    "scatter_max": np.maximum.at,
    "scatter_min": np.minimum.at,
    "scatter_subtract": np.subtract.at,
    "scatter_update": _assign,
}
