"""Upper bounds of what kernels allocate in addition to their outputs, also for unknown sizes."""

from __future__ import annotations

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Node
from tf_exla.ir.open_sizes import flat
from tf_exla.model.sizes import Sizes


def scratch_bytes(sizes: Sizes, node: Node) -> int:
    """Return an upper bound of the bytes that a kernel allocates in addition to its outputs."""
    ops = sizes.ops
    if not node.is_open or all(
        t.is_static or t.dtype in HANDLES for t in (*node.inputs, *node.outputs)
    ):
        return ops.scratch(node)
    inputs, outputs = (
        tuple(sizes.most(t).static(t) or flat(t, sizes.nbytes(t)) for t in tensors)
        for tensors in (node.inputs, node.outputs)
    )
    largest = Node(node.op, inputs, outputs, node.attrs, node.stateful, node.name)
    copies = sum(t.nbytes for t in (*inputs, *outputs))
    if any(
        t.shape is None or len(t.shape) != len(s.dims)
        for t, s in zip((*node.inputs, *node.outputs), (*inputs, *outputs), strict=True)
    ):
        return copies
    # If sizes decide which algorithm a kernel uses, the largest need not take the most.
    found = ops.scratch(largest)
    return max(found, copies) if ops.work(node) == "product" else found
