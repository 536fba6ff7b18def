"""Slices, pads, gathers and scatters, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tf_exla.frontends.numpy.shared import Update, ints
from tf_exla.ir.graph import Node

X = Any  # an array


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
