"""Sizes that TensorFlow's shape inference ignores or gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.attrs import shape_of
from tf_exla.ir.graph import Array, Shape, Tensor

Lookup = Callable[[Tensor], Array | None]


def static_sizes(
    kind: str, inputs: Sequence[Tensor], shapes: Sequence[Shape | None], value_of: Lookup
) -> list[Shape | None]:
    """Return the shapes of an op's results, with row counts from static ids or partitions.

    `value_of`: returns the value of a static tensor, else None.
    """
    position = _DECIDES.get(kind)
    found = None if position is None else value_of(inputs[position])
    if found is None:
        return list(shapes)
    ids = found.astype(np.int64)
    if kind == "DynamicPartition":
        rows = np.bincount(ids[ids >= 0].ravel(), minlength=len(shapes))
    else:  # the last id is the largest: the op fails if ids are not sorted
        rows = ids[-1:] + 1 if ids.size else np.zeros(1, ids.dtype)
    return [
        shape if not shape or n < 0 else (int(n), *shape[1:])
        for shape, n in zip(shapes, rows, strict=False)
    ]


_DECIDES: Mapping[str, int] = {
    "DynamicPartition": 1,
    **dict.fromkeys(("SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum"), 1),
    **dict.fromkeys(("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"), 2),
}
"""The position of the operand that determines the number of rows, by op."""


def misleads(op: tf.Operation) -> bool:
    """Return whether the static shapes of an op's results may be wrong.

    For diagonals of unknown length above or below the main one, TensorFlow 2.21 computes the size
    of the matrix from a length of -1.
    """
    return op.type in _DIAGONALS and shape_of(op.inputs[0].shape[-1:]) == (None,)


def with_shape(value: tf.Tensor, shape: Shape | None, emit: Callable[..., Any]) -> tf.Tensor:
    """Return an emitted tensor with this static shape, also if another one was inferred."""
    if misleads(value.op) or not value.shape.is_compatible_with(shape):
        value = emit("PlaceholderWithDefault", [value], {"shape": tf.TensorShape(shape)}).outputs[0]
    value.set_shape(shape)
    return value


def diagonal_sizes(
    kind: str, inputs: Sequence[Tensor], shapes: Sequence[Shape | None]
) -> list[Shape | None]:
    """Return the shapes of an op's results, without sizes computed from an unknown length."""
    if kind not in _DIAGONALS or not inputs[0].shape or inputs[0].shape[-1] is not None:
        return list(shapes)
    given = [-1 if one.value is None else int(one.value) for one in inputs[2:4]]
    sizes = [None if size < 0 else size for size in given]
    return [None if shape is None else (*shape[:-2], *sizes) for shape in shapes]


_DIAGONALS = frozenset({"MatrixDiagV2", "MatrixDiagV3"})
