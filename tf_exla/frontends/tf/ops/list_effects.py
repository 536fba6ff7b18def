"""Effects of ops on lists of tensors that depend on the node."""

from __future__ import annotations

from tf_exla.ir.graph import Node
from tf_exla.ir.lists import ListEffect, is_list


def wrapped(node: Node) -> ListEffect:
    """Return the effect of wrapping tensors: a list is unchanged, a handle keeps other tensors."""
    if node.inputs and is_list(node.inputs[0]):
        return ListEffect()
    return ListEffect(tuple(range(len(node.inputs))))


def set_item(node: Node) -> ListEffect:
    """Return the effect of writing one tensor, which may be behind the last one."""
    if node.attrs.get("resize_if_index_out_of_bounds"):
        return ListEffect((2,), resized=True, index=1)
    return ListEffect((2,))
