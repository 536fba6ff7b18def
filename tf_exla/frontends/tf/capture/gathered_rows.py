"""Gathers of a variable's rows as gathers of its value.

A gather that has the handle of a variable needs a buffer that nothing else shares: it copies the
whole variable if a tensor that was read before is still alive (`EnsureSparseVariableAccess` in
TensorFlow's core/kernels/training_op_helpers.h). A gather of the value shares it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tf_exla.frontends.tf.capture.variable_reads import placed, read_of
from tf_exla.ir.graph import Node, Tensor, const

GATHERS = frozenset({"ResourceGather", "ResourceGatherNd"})


def of_value(node: Node, value: Tensor) -> list[Node]:
    """Return nodes that gather the rows from the value of the variable."""
    gather = dataclasses.replace(node, inputs=(value, node.inputs[1]), stateful=False)
    if node.op == "ResourceGatherNd":
        return [dataclasses.replace(gather, op="GatherNd", attrs=placed(node))]
    batch = node.attrs.get("batch_dims", 0)
    axis = const(np.int32(batch), f"{node.name}/axis")  # type: ignore[arg-type]
    inputs, attrs = (*gather.inputs, axis.output), {**placed(node), "batch_dims": batch}
    return [axis, dataclasses.replace(gather, op="take", inputs=inputs, attrs=attrs)]


def of_read(node: Node, like: Tensor) -> list[Node]:
    """Return nodes that read the variable, whose value is like `like`, and gather the rows."""
    read = read_of(node, like)
    return [read, *of_value(node, read.output)]
