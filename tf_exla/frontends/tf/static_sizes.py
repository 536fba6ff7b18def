"""Sizes that values of operands determine and that TensorFlow's shape inference ignores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_exla.ir.graph import Array, Shape, Tensor

Lookup = Callable[[Tensor], Array | None]


def static_sizes(
    kind: str, inputs: Sequence[Tensor], shapes: Sequence[Shape | None], value_of: Lookup
) -> list[Shape | None]:
    """Return the shapes of an op's results, refined by static ids or partitions."""
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
"""The operand that determines the number of rows."""
