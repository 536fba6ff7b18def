"""Emit products that a kernel computes wrongly in the program's form.

With oneDNN, TensorFlow 2.21 reads beyond the second operand if it is one matrix and the batch of
the first has the shape [b, 1]. A chunk of one index has such a shape where the program does not.
"""

from __future__ import annotations

from math import prod

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import emit_const, is_large
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node

_BATCH = 2
"""The number of axes of a batch for which the kernel fails."""


def emit_batch_matmul(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Emit a product with one matrix for a batch with one axis; None if the kernel is right."""
    a, b = node.inputs
    if emitter.compiled or not (a.is_static and b.is_static):
        return None
    batch, one = a.dims[:-2], b.dims[:-2]
    if len(batch) != _BATCH or batch[1] != 1 or len(one) > _BATCH or prod(one) != 1:
        return None
    large = is_large(*node.inputs, *node.outputs)
    left, right = emitter.values(node.inputs)

    def reshaped(value: tf.Tensor, dims: tuple[int, ...]) -> tf.Tensor:
        shape = emit_const(emitter.graph, np.asarray(dims, "int32"))
        return emitter.op("Reshape", [value, shape], {}, large=large).outputs[0]

    operands = [reshaped(left, (batch[0], *a.dims[-2:])), reshaped(right, b.dims[-2:])]
    made = emitter.op(node.op, operands, node.attrs, large=large, name=node.name).outputs[0]
    return [reshaped(made, node.output.dims)]
