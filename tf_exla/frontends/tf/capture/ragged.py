"""Capture of ops on ragged tensors, with the sizes that their rows determine as operands.

`RaggedTensorToTensor` pads rows to the longest one. The number of values is an upper bound of its
length, but usually far too large. Nothing bounds the number of values that `RaggedRange` and
`RaggedGather` return, by which TensorFlow slices and joins ragged tensors. So nodes that compute
these sizes are added, and their results become operands of the ops. An eager call can run these
nodes first, and plan the rest for their results (`sources.py`). TensorFlow's ops do not have the
total number of values as an operand, so graphs contain the ops of `TOTALS` instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tf_exla.frontends.tf.capture.scope import Scope, Structured
from tf_exla.frontends.tf.nodes.attrs import decode
from tf_exla.frontends.tf.source_line import source_line
from tf_exla.ir.graph import Node, Tensor
from tf_exla.vocabulary.table import make

LONGEST = -1
"""Stands in a shape for the length of the longest row."""


def capture_padded(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a `RaggedTensorToTensor`; inputs: shape, values, padding, row partitions."""
    kinds = [_text(one) for one in attrs_of(op, inputs)["row_partition_types"]]
    shape = _shape(scope, inputs, kinds, name)
    return as_it_is(scope, op, inputs if shape is None else [shape, *inputs[1:]], name)


TOTALS: Mapping[str, str] = {"ragged_gather": "RaggedGather", "ragged_range": "RaggedRange"}
"""Ops whose last operand is the number of values of their last result, by TensorFlow's names."""


def capture_range(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a `RaggedRange`; inputs: starts, limits, steps."""
    starts, limits, steps = inputs
    known = all(one.is_static for one in inputs) and steps.value is not None
    if not known or not bool(np.all(steps.value == 1)) or starts.dtype not in ("int32", "int64"):
        return as_it_is(scope, op, inputs, name)
    writer = _Writer(scope, name)
    rows = writer.op("subtract", limits, starts)
    rows = writer.op("maximum", rows, writer.const(0, rows.dtype))
    return writer.with_total(op, inputs, rows)


def capture_gather(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a `RaggedGather`; inputs: row splits for each ragged axis, values, indices."""
    splits, indices = inputs[0], inputs[-1]
    known = splits.is_static and splits.size and indices.is_static
    if len(inputs) != 3 or not known or len(indices.dims) != 1:
        return as_it_is(scope, op, inputs, name)
    writer = _Writer(scope, name)
    rows = writer.op("take", writer.lengths(splits), indices, writer.const(0))
    return writer.with_total(op, inputs, rows)


def as_it_is(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    return scope.add(op.type, inputs, attrs_of(op, inputs), op, name)


def attrs_of(op: tf.Operation, inputs: Sequence[Tensor]) -> Mapping[str, Any]:
    return decode(op.type, op.node_def.attr, [tensor.dtype for tensor in inputs])


def _shape(scope: Scope, inputs: Sequence[Tensor], kinds: list[str], name: str) -> Tensor | None:
    """Return a tensor with the shape of the padded one, or None.

    None if the shape is given or unknown, or if rows are not given by their splits.
    """
    given, values, splits = inputs[0], inputs[1], inputs[3:]
    if given.value is None or values.shape is None or None in values.shape[1:]:
        return None
    if set(kinds) != {"ROW_SPLITS"} or not all(one.is_static and one.size for one in splits):
        return None
    sizes: list[int] = [splits[0].size - 1, *[LONGEST] * len(splits), *values.shape[1:]]  # type: ignore[list-item]
    wanted = [int(one) for one in np.ravel(given.value)] if given.dims else [LONGEST] * len(sizes)
    if len(wanted) != len(sizes):
        return None
    sizes = [size if one == LONGEST else one for one, size in zip(wanted, sizes, strict=True)]
    if LONGEST not in sizes:
        return None
    writer = _Writer(scope, name)
    parts = []
    for axis, size in enumerate(sizes):
        if size == LONGEST:
            parts.append(writer.longest(splits[axis - 1], given.dtype))
        else:
            parts.append(writer.const([size], given.dtype))
    made = writer.op("concat", *parts, writer.const(0), name="shape")
    return scope.sized(made)


class _Writer:
    """Appends nodes to a scope, their names those of one op with a suffix."""

    def __init__(self, scope: Scope, name: str) -> None:
        self.scope = scope
        self.name = name

    def const(self, value: npt.ArrayLike, dtype: str = "int32") -> Tensor:
        return self.scope.constant(np.asarray(value, dtype), dtype, self._unique("const"))

    def op(self, op: str, *inputs: Tensor, name: str = "", **attrs: object) -> Tensor:
        made = make(op, inputs, attrs, f"{self.name}/{name}" if name else self._unique(op))
        assert made is not None
        self.scope.nodes.append(made)
        return made.output

    def lengths(self, splits: Tensor) -> Tensor:
        """Return the lengths of rows."""
        size = self.const([splits.size - 1])
        after, before = (self.op("slice", splits, self.const([at]), size) for at in (1, 0))
        return self.op("subtract", after, before)

    def longest(self, splits: Tensor, dtype: str) -> Tensor:
        """Return the length of the longest row, as one element; 0 if there are no rows."""
        none = self.const([0], splits.dtype)
        joined = self.op("concat", self.lengths(splits), none, self.const(0))
        longest = self.op("max", joined, self.const([0]), keep_dims=True)
        return longest if dtype == splits.dtype else self.op("astype", longest, dtype=dtype)

    def with_total(self, op: tf.Operation, inputs: Sequence[Tensor], rows: Tensor) -> list[Tensor]:
        """Write an op of `TOTALS`, which returns rows of lengths `rows`."""
        scope, attrs = self.scope, attrs_of(op, inputs)
        axes = self.const(list(range(len(rows.dims))))
        total = scope.sized(self.op("sum", rows, axes, name="total", keep_dims=False))
        inferred = scope.inferred(op.type, list(inputs), attrs, op, self.name)
        shapes = scope.came(self.name, inferred)
        if op.type == "RaggedGather" and inputs[1].shape:
            shapes[-1] = (None, *inputs[1].shape[1:])
        shapes[0] = (rows.size + 1,)
        if total.value is not None and shapes[-1]:
            shapes[-1] = (int(total.value), *shapes[-1][1:])
        outputs = scope.outputs(op, shapes, self.name)
        (kind,) = (ours for ours, theirs in TOTALS.items() if theirs == op.type)
        source = source_line(op)
        scope.nodes.append(
            Node(kind, (*inputs, total), tuple(outputs), attrs, name=self.name, source=source)
        )
        return outputs

    def _unique(self, what: str) -> str:
        return f"{self.name}/{what}_{len(self.scope.nodes)}"


def _text(kind: object) -> str:
    return kind.decode() if isinstance(kind, bytes) else str(kind)


RAGGED: Mapping[str, Structured] = {
    "RaggedGather": capture_gather,
    "RaggedRange": capture_range,
    "RaggedTensorToTensor": capture_padded,
}
"""Functions that capture an op, by TensorFlow's names."""
