"""Tensors all of whose elements are known to be zero."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.lists import is_list

_KEPT_ZERO = frozenset(
    {"broadcast_to", "expand_dims", "full", "identity", "negative", "reshape", "tile"}
)


def is_zero(tensor: Tensor, producer: Mapping[Tensor, Node]) -> bool:
    """Return whether all elements of a tensor are known to be zero."""
    if tensor.value is not None:
        return not np.any(tensor.value)
    node = producer.get(tensor)
    if node is None:
        return False
    if node.op == "constant":
        return not np.any(np.asarray(node.attrs["value"]))
    if node.op == "zeros_like":
        return not is_list(tensor)
    return node.op in _KEPT_ZERO and is_zero(node.inputs[node.op == "full"], producer)
