"""Emit ops for a whole module where XLA's own code returns other numbers than a GPU's kernel.

The ops that are added work on elements, so XLA fuses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.emit import emit_const
from tf_exla.frontends.tf.emitter import Emitter
from tf_exla.ir.graph import Node, Tensor


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
    """Take the first of -0 and 0, which XLA orders by their signs."""
    if not emitter.compiled or not _is_real(node.inputs[0]):
        return None
    x, k = emitter.values(node.inputs)
    zero = emit_const(emitter.graph, np.array(0.0), node.inputs[0].dtype)
    (is_zero,) = emitter.op("Equal", [x, zero], {}).outputs
    (x,) = emitter.op("SelectV2", [is_zero, zero, x], {}).outputs
    return list(emitter.op(node.op, [x, k], node.attrs, name=node.name).outputs)


def emit_cross_entropy(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Return NaN for a logit of -inf whose label is 0: XLA skips the product of both."""
    if not emitter.compiled:
        return None
    logits, labels = emitter.values(node.inputs)
    loss, gradient = emitter.op(node.op, [logits, labels], node.attrs, name=node.name).outputs

    def number(value: float) -> tf.Tensor:
        return emit_const(emitter.graph, np.array(value), node.inputs[0].dtype)

    (lowest,) = emitter.op("Equal", [logits, number(-np.inf)], {}).outputs
    (unlabeled,) = emitter.op("Equal", [labels, number(0.0)], {}).outputs
    (lost,) = emitter.op("LogicalAnd", [lowest, unlabeled], {}).outputs
    axis = emit_const(emitter.graph, np.array(1), "int32")
    (lost,) = emitter.op("any", [lost, axis], {"keep_dims": False}).outputs
    (loss,) = emitter.op("SelectV2", [lost, number(np.nan), loss], {}).outputs
    return [loss, gradient]


def _is_real(tensor: Tensor) -> bool:
    return tensor.dtype.startswith(("float", "bfloat"))
