"""Capture of reductions of sorted segments with the number of segments as an operand.

`tf.math.segment_sum(x, ids)` has as many rows as the last id says. Nothing bounds that before the
ids are known. As an operand, an eager call can compute the number first, and plan for it
(`sources.py`). TensorFlow's ops do not have the operand, so these are ops of their own in graphs.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tf_exla.frontends.tf.ragged import Writer, as_it_is, attrs_of
from tf_exla.frontends.tf.scope import Scope, Structured
from tf_exla.frontends.tf.source_line import source_line
from tf_exla.ir.graph import Node, Tensor

_KINDS = ("SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum")
NUMBERED: Mapping[str, str] = {f"numbered_{kind}": kind for kind in _KINDS}
"""Ops whose last operand is the number of segments, by TensorFlow's names."""


def capture(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a reduction of segments; inputs: x, ids."""
    x, ids = inputs
    (made,) = scope.inferred(op.type, inputs, attrs := attrs_of(op, inputs), op, name)
    if not (x.is_static and ids.is_static) or made is None or None not in made:
        return as_it_is(scope, op, inputs, name)
    w = Writer(scope, name)
    last = w.op("max", ids, w.const([0]), keep_dims=False)  # the least integer if there are no ids
    after = w.op("add", last, w.const(1, ids.dtype))
    count = scope.sized(w.op("maximum", after, w.const(0, ids.dtype), name="segments"))
    shape = (None if count.value is None else int(count.value), *x.dims[1:])
    outputs = scope.outputs(op, [shape], name)
    scope.nodes.append(
        Node(
            f"numbered_{op.type}", (x, ids, count), tuple(outputs), attrs, name=name,
            source=source_line(op),
        )
    )  # fmt: skip
    return outputs


SEGMENTS: Mapping[str, Structured] = dict.fromkeys(_KINDS, capture)
"""Functions that capture an op, by TensorFlow's names."""
