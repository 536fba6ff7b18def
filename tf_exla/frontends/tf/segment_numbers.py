"""Sizes of reductions of sorted segments, which a call can compute first.

`tf.math.segment_sum(x, ids)` has as many rows as the last id says. Nothing bounds that before the
ids are known. So the head of a cut program computes it (`sources.py`), and the rest is captured for
the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tf_exla.frontends.tf.given import Given
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.ragged import as_it_is, attrs_of
from tf_exla.frontends.tf.scope import Scope, Structured
from tf_exla.frontends.tf.source_line import source_line
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor

_KINDS = frozenset({"SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum"})


def number_of_segments(node: Node, given: Given) -> list[Node] | None:
    """Return the nodes that compute the number of rows, the last of them; None if it is known."""
    if node.op not in _KINDS or _key(node.name) in given.values or not node.inputs[1].is_static:
        return None
    if node.output.shape is None or node.output.shape[0] is not None:
        return None
    w, ids = Builder(node, OPS), node.inputs[1]
    last = w.op("max", ids, w.const([0]), keep_dims=False)  # the least integer if there are no ids
    w.op("maximum", w.op("add", last, w.const(1, ids.dtype)), w.const(0, ids.dtype))
    return w.ended(Tensor((), ids.dtype, _key(node.name)))


def capture(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a reduction of segments; inputs: x, ids."""
    known = scope.walk.given.values.get(_key(name)) if scope.hoist else None
    if known is None or inputs[0].shape is None:
        return as_it_is(scope, op, inputs, name)
    made = scope.outputs(op, [(int(known), *inputs[0].shape[1:])], name)
    attrs, source = attrs_of(op, inputs), source_line(op)
    scope.nodes.append(Node(op.type, tuple(inputs), tuple(made), attrs, name=name, source=source))
    return made


def _key(name: str) -> str:
    return f"{name}/segments"


SEGMENTS: Mapping[str, Structured] = dict.fromkeys(_KINDS, capture)
"""Functions that capture an op, by TensorFlow's names."""
