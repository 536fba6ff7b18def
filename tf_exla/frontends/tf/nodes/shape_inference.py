"""TensorFlow's inference of the shapes of results, for operands of given shapes and values.

An op is created on placeholders and constants, which takes about half a millisecond. Layers,
unrolled steps and the programs of one script repeat most of their ops, so the shapes are kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import DEVICE, emit, emit_const, new_graph, placeholder
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.clean import shown
from tf_exla.ir.graph import Array, Shape

_MOST_KEPT = 1 << 14
_kept: dict[Hashable, tuple[tf.TensorShape, ...]] = {}


class MisfitError(Exception):
    """The operands do not fit the op or each other."""


class Operand(NamedTuple):
    """What inference knows of an operand: `value` if it is static.

    `like`: a tensor of TensorFlow with the operand's handle data (a variable's shape), for handles.
    """

    dtype: str
    shape: Shape | None
    value: Array | None = None
    like: tf.Tensor | None = None


def infer_shapes(
    op: str, operands: Sequence[Operand], attrs: Mapping[str, Any]
) -> tuple[tf.TensorShape, ...]:
    """Return the shapes of an op's results.

    Raises MisfitError.
    """
    attrs = {key: value for key, value in attrs.items() if key != DEVICE}
    key = _key(op, operands, attrs)
    found = None if key is None else _kept.get(key)
    if found is None:
        found = _inferred(op, operands, attrs)
        if key is not None:
            if len(_kept) >= _MOST_KEPT:
                _kept.clear()
            _kept[key] = found
    return found


def _inferred(
    op: str, operands: Sequence[Operand], attrs: Mapping[str, Any]
) -> tuple[tf.TensorShape, ...]:
    graph = new_graph("shapes")
    try:
        symbols = [
            placeholder(graph, one.dtype, one.shape, one.like)
            if one.value is None
            else emit_const(graph, one.value, one.dtype)
            for one in operands
        ]
        made = emit(graph, op, symbols, attrs)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise MisfitError(str(error)) from error
    return tuple(tensor.shape for tensor in made.outputs)


def _key(op: str, operands: Sequence[Operand], attrs: Mapping[str, Any]) -> Hashable | None:
    """Return all that the shapes depend on; None for handles, whose data is TensorFlow's."""
    if any(one.dtype in HANDLES for one in operands):
        return None
    known = tuple((one.dtype, one.shape, shown(one.value)) for one in operands)
    return op, known, tuple(sorted((name, shown(value)) for name, value in attrs.items()))
