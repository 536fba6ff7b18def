"""Bytes that eager tensors hold, the elements of lists (`TensorArray`) included."""

from __future__ import annotations

from math import prod

import numpy as np
import tensorflow as tf

from tf_exla.ir.control_flow import CHOICES, is_while
from tf_exla.ir.graph import Graph, Tensor, item_bytes

HANDLES = (tf.resource, tf.variant)


def element_dtype(graph: Graph, tensor: Tensor) -> str:
    """Return the dtype of a list's elements, found from the nodes that read or fill the list.

    "" if no node tells it, or if the tensor is no list.
    """
    if tensor.dtype != "variant":
        return ""
    for node in graph.nodes:
        if tensor not in node.inputs:
            continue
        found = node.attrs.get("element_dtype") if tensor is node.inputs[0] else None
        if isinstance(found, str):
            return found
        if node.op in ("list_push", "list_set"):
            if tensor is node.inputs[0]:
                return node.inputs[-1].dtype
            continue  # here the list is the item of another list
        # A list that is resized or only passed on.
        behind = [(graph, one) for one in node.outputs if one.dtype == "variant"]
        first = 1 if node.op in CHOICES else 0
        if (first or is_while(node)) and tensor in node.inputs[first:]:
            place = node.inputs[first:].index(tensor)
            behind = [*((sub, sub.inputs[place]) for _, sub in node.subgraphs), *behind]
        for inside, one in behind:
            if known := element_dtype(inside, one):
                return known
    return ""


def held_bytes(value: tf.Tensor, dtype: str = "") -> int:
    """Return the bytes of a tensor, or of the elements of a list; 0 for other handles.

    `dtype`: that of a list's elements.
    """
    if value.dtype == tf.variant:
        return _list_bytes(value, dtype) if dtype and "<TensorList>" in repr(value) else 0
    if value.dtype == tf.resource:
        return 0
    return int(value.shape.num_elements() * value.dtype.size)


def _list_bytes(value: tf.Tensor, dtype: str) -> int:
    count = int(tf.raw_ops.TensorListLength(input_handle=value))
    shape = tf.raw_ops.TensorListElementShape(input_handle=value, shape_type=tf.int32).numpy()
    if shape.ndim and (shape >= 0).all():
        return count * prod(map(int, shape)) * item_bytes(dtype)
    # Reading an item that was never written makes zeros of this shape, which has no elements.
    shape = np.maximum(np.atleast_1d(shape), 0)
    items = (
        tf.raw_ops.TensorListGetItem(  # without a copy, in 20 microseconds
            input_handle=value, index=place, element_shape=shape, element_dtype=dtype
        )
        for place in range(count)
    )
    return sum(map(held_bytes, items))
