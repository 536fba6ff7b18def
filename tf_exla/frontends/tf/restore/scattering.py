"""Emit `scatter_rows` and `update_rows`: a scatter into the rows of a matrix, or of a chunk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import emit_const
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node


def emit_scatter_rows(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Scatter values [..., k, inner] at columns [..., k] into [..., m, inner]."""
    inputs = emitter.values(node.inputs)
    update = node.op == "update_rows"
    columns, values = inputs[1:] if update else inputs[:2]
    *batch, count = node.inputs[1 if update else 0].dims
    width, *inner = node.output.dims[len(batch) :]
    rows, index = math.prod(batch), columns.dtype.name

    def op(kind: str, operands: list[tf.Tensor], **attrs: Any) -> tf.Tensor:
        return emitter.op(kind, operands, attrs, large=True).outputs[0]

    def number(value: Any, kind: str = index) -> tf.Tensor:
        return emit_const(emitter.graph, np.asarray(value, kind))

    def shaped(value: tf.Tensor, *shape: int) -> tf.Tensor:
        dims = number(shape, "int64")
        return op("Reshape", [value, dims])

    # An anchor, since TensorFlow would keep the row numbers as a constant.
    first = emitter.anchor(np.asarray(0, index), index)
    numbers = shaped(op("Range", [first, number(rows), number(1)]), rows, 1)
    dims = number([rows, count], "int64")
    numbers = op("BroadcastTo", [numbers, dims])
    places = op("Pack", [numbers, shaped(columns, rows, count)], axis=2)
    values = shaped(values, rows, count, *inner)
    if update:
        base = shaped(inputs[0], rows, width, *inner)
        made = op(str(node.attrs["scatter"]), [base, places, values])
    else:
        made = op("ScatterNd", [places, values, number([rows, width, *inner])])
    return [shaped(made, *node.output.dims)]
