"""Emit ops for a whole module where XLA's own code returns other numbers than a GPU's kernel.

The ops that are added work on elements, so XLA fuses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import emit_const
from tf_exla.frontends.tf.ops.memory.gpu import sorts
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node
from tf_exla.model.top_k import CHUNKED


def emit_take(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Take zeros for indices out of range, as a GPU's kernel does; XLA takes the nearest part."""
    if not emitter.compiled or node.inputs[2].value is None or not node.output.is_static:
        return None
    whole, places = node.inputs[:2]
    axis = int(node.inputs[2].value) % len(whole.dims)
    count = whole.dims[axis]
    known = places.value
    if known is not None and all(0 <= int(one) < count for one in known.ravel()):
        return None
    x, indices, at = emitter.values(node.inputs)
    (made,) = emitter.op(node.op, [x, indices, at], node.attrs, name=node.name).outputs

    def number(value: Any, dtype: str) -> tf.Tensor:
        return emit_const(emitter.graph, np.asarray(value), dtype)

    (low,) = emitter.op("GreaterEqual", [indices, number(0, places.dtype)], {}).outputs
    (high,) = emitter.op("Less", [indices, number(count, places.dtype)], {}).outputs
    (inside,) = emitter.op("LogicalAnd", [low, high], {}).outputs
    batch = int(str(node.attrs.get("batch_dims", 0)))
    batch += len(places.dims) if batch < 0 else 0
    dims = [*places.dims[:batch], *[1] * (axis - batch), *places.dims[batch:]]
    dims += [1] * (len(whole.dims) - axis - 1)
    (inside,) = emitter.op("Reshape", [inside, number(dims, "int64")], {}).outputs
    (zero,) = emitter.op("ZerosLike", [made], {}).outputs
    return list(emitter.op("SelectV2", [inside, made, zero], {}).outputs)


def emit_top_k(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Find the largest as TensorFlow's kernel does, with NaN as the least number.

    XLA orders -0 before 0, and NaN after all numbers, as the kernel's sort of short rows does. For
    long rows, of which a chunk is a part, the kernel keeps a heap. That has a NaN only if it is
    among the first k elements.
    """
    if not emitter.compiled or not node.inputs[0].is_real:
        return None
    if CHUNKED not in node.attrs and sorts(node.inputs[0].dims[-1], node.outputs[0].dims[-1]):
        return None
    x, k = emitter.values(node.inputs)
    *batch, count = node.outputs[0].dims
    begin = emit_const(emitter.graph, np.zeros(len(batch) + 1, np.int64))
    first = emit_const(emitter.graph, np.array([*batch, count]), "int64")
    (head,) = emitter.op("Slice", [x, begin, first], {}).outputs
    ranked = ranked_by(emitter, x)
    values, places = emitter.op(node.op, [ranked, k], node.attrs, name=node.name).outputs
    (lost,) = emitter.op("IsNan", [head], {}).outputs
    last = emit_const(emitter.graph, np.array(len(batch)), "int32")
    (lost,) = emitter.op("any", [lost, last], {"keep_dims": True}).outputs
    (least,) = emitter.op("Equal", [values, _number(emitter, -np.inf, x)], {}).outputs
    (lost,) = emitter.op("LogicalAnd", [lost, least], {}).outputs
    (values,) = emitter.op("SelectV2", [lost, _number(emitter, np.nan, x), values], {}).outputs
    return [values, places]


def ranked_by(emitter: Emitter, x: tf.Tensor) -> tf.Tensor:
    """Return what XLA orders as TensorFlow orders x: one zero, and -inf for NaN."""
    if not x.dtype.is_floating:
        return x
    zero, least = (_number(emitter, value, x) for value in (0.0, -np.inf))
    for test, operands, value in (("Equal", [x, zero], zero), ("IsNan", [x], least)):
        (found,) = emitter.op(test, operands, {}).outputs
        (x,) = emitter.op("SelectV2", [found, value, x], {}).outputs
    return x


def _number(emitter: Emitter, value: float, like: tf.Tensor) -> tf.Tensor:
    return emit_const(emitter.graph, np.array(value), like.dtype.name)


def emit_extreme(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Emit a maximum or minimum along axes for XLA, which may lose NaNs in it."""
    if not emitter.compiled or not node.output.is_real:
        return None
    x, axes = emitter.values(node.inputs)
    (found,) = emitter.op(node.op, [x, axes], node.attrs, name=node.name).outputs
    (lost,) = emitter.op("IsNan", [x], {}).outputs
    (lost,) = emitter.op("any", [lost, axes], node.attrs).outputs
    return list(emitter.op("SelectV2", [lost, _number(emitter, np.nan, found), found], {}).outputs)


def emit_cross_entropy(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Return NaN for a logit of -inf whose label is 0: XLA skips the product of both."""
    if not emitter.compiled:
        return None
    logits, labels = emitter.values(node.inputs)
    loss, gradient = emitter.op(node.op, [logits, labels], node.attrs, name=node.name).outputs
    (lowest,) = emitter.op("Equal", [logits, _number(emitter, -np.inf, logits)], {}).outputs
    (unlabeled,) = emitter.op("Equal", [labels, _number(emitter, 0.0, labels)], {}).outputs
    (lost,) = emitter.op("LogicalAnd", [lowest, unlabeled], {}).outputs
    axis = emit_const(emitter.graph, np.array(1), "int32")
    (lost,) = emitter.op("any", [lost, axis], {"keep_dims": False}).outputs
    (loss,) = emitter.op("SelectV2", [lost, _number(emitter, np.nan, loss), loss], {}).outputs
    return [loss, gradient]
