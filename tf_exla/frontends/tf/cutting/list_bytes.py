"""Bytes of the lists that a loop passes from step to step.

TensorFlow does not tell how much a list holds. To add up its elements takes a call for each, so a
loop that does this at each step takes quadratic time. But a step that puts a few tensors into a
list adds at most their bytes, so the sum is needed only where such a bound is not good enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow as tf

from tf_exla.frontends.tf.held import held_bytes
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.graph import Graph
from tf_exla.ir.traverse import producers
from tf_exla.model.sizes import Sizes

Added = Mapping[int, tuple[int, int]]
"""For each list, by its position among the outputs: its position among the inputs, added bytes."""


class ListBytes:
    """Upper bounds of the bytes of the lists of the latest step."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tf.Tensor, int]] = {}

    def of(self, value: tf.Tensor, dtype: str) -> int:
        """Return a bound for a list with elements of `dtype`; their sum if none is known."""
        known = self._known.get(id(value))
        return self.sum_of(value, dtype) if known is None else known[1]

    def sum_of(self, value: tf.Tensor, dtype: str) -> int:
        """Return the bytes of the elements of a list."""
        found = held_bytes(value, dtype)
        self._known[id(value)] = value, found
        return found

    def keep(self, lists: Iterable[tuple[tf.Tensor, int]]) -> None:
        """Set the bounds of the lists that a step returned, and forget all others."""
        self._known = {id(value): (value, held) for value, held in lists}

    def clear(self) -> None:
        """Forget all lists, which live no longer than their loop."""
        self._known = {}


def added_bytes(graph: Graph) -> Added:
    """Return upper bounds of the bytes that a step adds to lists.

    Lists that a step changes in another way than by adding tensors of bounded size are left out.
    """
    sizes, made_by = Sizes(OPS), producers(graph)
    sizes.lists(graph)
    places = {tensor: k for k, tensor in enumerate(graph.inputs)}
    found: dict[int, tuple[int, int]] = {}
    for position, tensor in enumerate(graph.outputs):
        added: int | None = 0
        while tensor not in places and added is not None:
            node = made_by[tensor]
            item = node.inputs[-1] if node.op in ("list_push", "list_set") else None
            if item is not None and item.dtype not in ("variant", "resource"):
                known = item.is_static or sizes.most(item).size is not None
                added = added + sizes.nbytes(item) if known else None
            elif node.op != "identity":
                added = None
            tensor = node.inputs[0] if node.inputs else tensor
        if added is not None and tensor.dtype == "variant":
            found[position] = places[tensor], added
    return found
