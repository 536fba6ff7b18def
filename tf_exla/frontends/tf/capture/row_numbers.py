"""Numbers of rows that a call can compute first: of segments, and of positions that are not zero.

`tf.math.segment_sum(x, ids)` has as many rows as the last id says. Nothing bounds that before the
ids are known. `tf.where(x)` may have as many rows as x has elements, and usually has far fewer. So
the head of a cut program computes the number (`sources.py`), and the rest is captured for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tf_exla.frontends.tf.capture.given import Given
from tf_exla.frontends.tf.capture.ragged import as_it_is, attrs_of
from tf_exla.frontends.tf.capture.scope import Scope, Structured
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.source_line import source_line
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor

_POSITIONS = "nonzero"  # `tf.where`
_KINDS = frozenset({"SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum"})


def number_of_rows(node: Node, given: Given, positions: bool = False) -> list[Node] | None:
    """Return nodes that compute the number of rows of a result; the last of them returns it.

    None if the number is known already, or if the node is of another kind. `positions`: whether the
    rows of `tf.where` of a mask are counted, too.
    """
    operand = counted(node)
    if operand is None or _key(node.name) in given.values or not operand.is_static:
        return None
    if node.output.shape is None or node.output.shape[0] is not None:
        return None
    w = Builder(node, OPS)
    if node.op != _POSITIONS:
        last = w.op("max", operand, w.const([0]), keep_dims=False)  # if empty: the least integer
        w.op("maximum", w.op("add", last, w.const(1, operand.dtype)), w.const(0, operand.dtype))
        return w.ended(Tensor((), operand.dtype, _key(node.name)))
    if not positions or operand.dtype != "bool":
        return None
    ones = w.op("where", operand, w.const(1, "int64"), w.const(0, "int64"))
    w.op("sum", ones, w.const([*range(len(operand.dims))]), keep_dims=False)
    return w.ended(Tensor((), "int64", _key(node.name)))


def counted(node: Node) -> Tensor | None:
    """Return the operand that determines the number of rows of a node; None for other nodes."""
    if node.op == _POSITIONS:
        return node.inputs[0]
    return node.inputs[1] if node.op in _KINDS else None


def capture(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture an op with the number of rows that `Scope.walk.given` has for it, if any."""
    known = scope.walk.given.values.get(_key(name)) if scope.hoist else None
    if known is None or inputs[0].shape is None:
        return as_it_is(scope, op, inputs, name)
    rows = inputs[0].shape[1:] if op.type in _KINDS else (len(inputs[0].shape),)
    made = scope.outputs(op, [(int(known), *rows)], name)
    attrs, source = attrs_of(op, inputs), source_line(op)
    kind = op.type if op.type in _KINDS else _POSITIONS
    scope.nodes.append(Node(kind, tuple(inputs), tuple(made), attrs, name=name, source=source))
    return made


def _key(name: str) -> str:
    return f"{name}/rows"


COUNTED_ROWS: Mapping[str, Structured] = dict.fromkeys((*_KINDS, "Where"), capture)
"""Functions that capture an op, by TensorFlow's names."""
