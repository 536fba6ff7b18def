"""Static values: results of nodes that are known before the program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, execute, record

from tf_exla.frontends.tf.nodes.attrs import attr_types, dtype_enum, tensorflow_attrs
from tf_exla.frontends.tf.nodes.names import tensorflow_name
from tf_exla.ir.graph import Array, Tensor, item_bytes

# An integer operand of up to this many elements may be a shape, axes or indices.
FOLD_ELEMENTS = 1024
# Other values are folded only up to the size that constants of a graph may have.
CONST_BYTES = 1024

_OF_SHAPE = {"Shape", "ShapeN", "Size", "Rank"}
_NEVER = {"Const", "Placeholder", "PlaceholderWithDefault", "Empty"}
_NO_VALUE = (tf.resource, tf.variant)


def is_small(dtype: str, size: int, nbytes: int) -> bool:
    """Return whether a value may be a constant: few integers or booleans, or 1 kB of others."""
    if dtype.startswith(("int", "uint", "bool")):
        return size <= FOLD_ELEMENTS
    return nbytes <= CONST_BYTES


def fold(
    op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], count: int
) -> list[Array] | None:
    """Return the `count` results of a pure op if its inputs determine them, else None.

    The op runs eagerly on the CPU.
    """
    op = tensorflow_name(op)
    if op in _OF_SHAPE:
        return _fold_shape(op, inputs, attrs)
    if op in _NEVER or not inputs or any(tensor.value is None for tensor in inputs):
        return None
    attrs = tensorflow_attrs(op, attrs, [tensor.dtype for tensor in inputs])
    types = {name: type_ for name, type_ in attr_types(op).items() if name in attrs}
    if any("func" in type_ or "tensor" in type_ for type_ in types.values()):
        return None
    flat = [item for name in types for item in (name, _eager_attr(attrs[name], types[name]))]
    try:
        with context.eager_mode(), record.stop_recording(), tf.device("CPU:0"):
            values = [tf.constant(tensor.value, dtype=tensor.dtype) for tensor in inputs]
            results = execute.execute(op, count, values, tuple(flat), context.context())
            if any(result.dtype in _NO_VALUE for result in results):
                return None
            return [_array(result) for result in results]
    except (tf.errors.OpError, TypeError, ValueError):
        return None  # errors are left to run time


def fold_partly(
    kind: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], known: dict[Tensor, Array]
) -> Array | None:
    """Return the result of an op that moves integers, with `UNKNOWN` for each that is not static.

    `known`: such values of operands. `tf.shape(x)[1]` is static if only the row count is unknown.
    """
    if kind == "Shape" and inputs[0].shape is not None:
        sizes = [UNKNOWN if one is None else one for one in inputs[0].shape]
        return np.array(sizes, str(attrs.get("out_type", "int32")))
    if kind not in _MOVE_INTEGERS or not any(tensor in known for tensor in inputs):
        return None
    values = [tensor.value if tensor.value is not None else known.get(tensor) for tensor in inputs]
    data = len(inputs) if kind == "Pack" else len(inputs) - 1 if kind == "ConcatV2" else 1
    # Indices, axes and shapes decide which integers are moved: all of them must be static.
    if any(value is None or np.any(value == UNKNOWN) for value in values[data:]):
        return None
    operands = [
        Tensor(tensor.shape, tensor.dtype, tensor.name, value)
        for tensor, value in zip(inputs, values, strict=True)
    ]
    made = fold(kind, operands, attrs, 1)
    return made[0] if made is not None and made[0].dtype.name in ("int32", "int64") else None


UNKNOWN = -(2**31) + 1
"""The value of integers that are not static; no size and no index is as small."""

_MOVE_INTEGERS = frozenset(
    {"Cast", "ConcatV2", "GatherV2", "Pack", "Reshape", "StridedSlice", "Slice", "Identity"}
)


def _array(result: tf.Tensor) -> Array:
    """Return a result as an array; text as objects, since numpy would strip its trailing zeros."""
    return np.asarray(result.numpy(), object if result.dtype == tf.string else None)


def value_bytes(array: Array, dtype: str) -> int:
    """Return the bytes of a value of TensorFlow's type `dtype`, for text with its characters."""
    text = sum(map(len, array.ravel())) if dtype == "string" else 0
    return array.size * item_bytes(dtype) + text


def _fold_shape(op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Array] | None:
    if op == "Rank":
        return None if inputs[0].shape is None else [np.array(len(inputs[0].shape), np.int32)]
    if not all(tensor.is_static for tensor in inputs):
        return None
    dtype = np.dtype(attrs.get("out_type", "int32"))
    if op == "Size":
        return [np.array(inputs[0].size, dtype)]
    return [np.array(tensor.dims, dtype) for tensor in inputs]


def _eager_attr(value: Any, type_: str) -> Any:
    if type_ == "type":
        return dtype_enum(value)
    if type_ == "list(type)":
        return [dtype_enum(item) for item in value]
    return value
