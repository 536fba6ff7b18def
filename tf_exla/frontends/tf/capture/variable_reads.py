"""Reads of variables that replace nodes which have the handle."""

from __future__ import annotations

import dataclasses

from tf_exla.frontends.tf.nodes.emit import DEVICE
from tf_exla.ir.graph import Node, Tensor


def read_of(node: Node, like: Tensor) -> Node:
    """Return a read of the variable whose handle a node has; its value is like `like`."""
    value = Tensor(like.shape, like.dtype, f"{node.name}/value")
    return dataclasses.replace(
        node,
        op="read_variable",
        inputs=node.inputs[:1],
        outputs=(value,),
        attrs={**placed(node), "dtype": like.dtype},
        name=value.name,
    )


def placed(node: Node) -> dict[str, object]:
    """Return the attribute with the device of a node, if it has one."""
    return {key: value for key, value in node.attrs.items() if key == DEVICE}
