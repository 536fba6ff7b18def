"""What ops do to lists of tensors, where that depends on the node."""

from __future__ import annotations

from tf_exla.ir.graph import Node
from tf_exla.ir.lists import ListEffect, is_list


def wrapped(node: Node) -> ListEffect:
    """A list as it is; a handle of other tensors keeps them."""
    if node.inputs and is_list(node.inputs[0]):
        return ListEffect()
    return ListEffect(tuple(range(len(node.inputs))))


def set_item(node: Node) -> ListEffect:
    """One tensor in its place, which may be behind the last one."""
    if node.attrs.get("resize_if_index_out_of_bounds"):
        return ListEffect((2,), resized=True, index=1)
    return ListEffect((2,))
