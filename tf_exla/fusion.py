"""What XLA's code for a CPU makes more than once, to keep it in registers.

A pointwise op that takes a few flops is computed in each loop that reads its result; a division, a
root or an exponential with several readers once, into a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_exla.graph import Node, Tensor
from tf_exla.op_set import OpSet

SIMPLE = 3
"""Flops an element, of what is cheaper to compute again than to write and read."""


def is_simple(ops: OpSet, node: Node) -> bool:
    """Return whether a node is a pointwise op of a few flops."""
    if ops.work(node) != "pointwise" or len(node.outputs) != 1 or not node.output.is_static:
        return False
    return ops.flops(node) <= SIMPLE * node.output.size


def is_one_loop(ops: OpSet, node: Node) -> bool:
    """Return whether a node goes through its result once, element by element, or fills it."""
    if ops.work(node) != "pointwise" or len(node.outputs) != 1:
        return False
    if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)):
        return False
    size, largest = node.output.size, max((t.size for t in node.inputs), default=0)
    return size >= EXPANDS * largest or (size == largest and ops.flops(node) >= size > 0)


EXPANDS = 16
"""Times the elements of its operands: such a result is a broadcast, a tile, a pad."""


def made_by_readers(ops: OpSet, node: Node, tensor: Tensor, readers: Sequence[Node]) -> bool:
    """Return whether the loops that read the tensor make it, each for itself.

    One reader does so with any pointwise op; several where it is simple, and each goes through its
    elements as they lie.
    """
    if len(readers) == 1:
        return True
    return is_simple(ops, node) and all(
        reader.outputs[0].size == tensor.size for reader in readers if reader.outputs
    )
