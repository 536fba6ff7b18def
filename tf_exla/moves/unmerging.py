"""Products of matrices whose rows are two axes in one, computed with the axes apart.

`reshape(reshape(x, [a n, d]) w, [a, n, e])` applies one layer to each vector of [a, n, d]. So do
Jacobians by columns, layers on sequences, and kernels of several outputs. A chunk of the axis n is
not a contiguous part of the merged rows, so n could not be split. With the axes apart, this is a
batch of products, one for each index of the outer axis. Only a longer inner axis needs that: a
chunk of the outer axis is contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_exla.ir.builder import Builder
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Tensor, item_bytes
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import consumers, producers, with_subgraphs

Group = tuple[int, ...]
"""The sizes of the axes that are merged into one."""


def unmerge(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Replace products with merged axes that touch a tensor of more than `least` bytes by batches.

    Also in sub-graphs. The graph itself is returned if there are none.
    """
    made_by, readers = producers(graph), consumers(graph)
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, lambda sub: unmerge(sub, ops, least))
        nodes.extend(_apart(node, ops, least, made_by, readers))
    made = graph.with_nodes(nodes)
    return graph if made is graph else clean(made, ops)


def _apart(
    node: Node,
    ops: OpSet,
    least: int,
    made_by: dict[Tensor, Node],
    readers: dict[Tensor, list[tuple[Node, int]]],
) -> Sequence[Node]:
    """Return the nodes that replace a node: itself if it is no such product."""
    tensors = (*node.inputs, *node.outputs)
    if node.op != "matmul" or not all(one.is_static and one.size for one in tensors):
        return (node,)
    if max(one.nbytes for one in tensors) <= least or item_bytes(node.output.dtype) < 4:
        return (node,)
    left, right = node.inputs
    flipped = bool(node.attrs.get("transpose_a")), bool(node.attrs.get("transpose_b"))
    if any(flipped) and node.output.dtype.startswith("complex"):
        return (node,)  # `batch_matmul` has only adjoint flags, which also conjugate
    w = Builder(node, ops)
    if not flipped[0]:
        rows = _group_of(left, 0, made_by) or _group_read(node.output, readers)
        if rows is None:
            return (node,)
        x = w.op("reshape", left, w.const([*rows, left.dims[1]]))
        made = w.op("batch_matmul", x, right, adj_x=False, adj_y=flipped[1])
    elif not flipped[1]:
        inner = _group_of(left, 0, made_by) or _group_of(right, 0, made_by)
        if inner is None or inner[0] * node.output.nbytes > least:
            return (node,)
        x, y = (w.op("reshape", one, w.const([*inner, one.dims[1]])) for one in (left, right))
        made = w.op("batch_matmul", x, y, adj_x=True, adj_y=False)
        made = w.op("sum", made, w.const([0]), keep_dims=False)
    else:
        return (node,)
    w.op("reshape", made, w.const(list(node.output.dims)))
    return tuple(w.ended(node.output))


def _group_of(tensor: Tensor, axis: int, made_by: dict[Tensor, Node]) -> Group | None:
    """Return the axes that a reshape merges into one axis of its result."""
    node = made_by.get(tensor)
    while node is not None and node.op == "reshape":
        group = _merged(node.inputs[0], node.output.dims[axis])
        if group is not None:
            return group
        node = made_by.get(node.inputs[0])
    return None


def _group_read(tensor: Tensor, readers: dict[Tensor, list[tuple[Node, int]]]) -> Group | None:
    """Return the axes into which a reshape separates the first axis of a tensor."""
    for reader, position in readers.get(tensor, ()):
        if reader.op == "reshape" and not position:
            group = _merged(reader.output, tensor.dims[0])
            if group is not None:
                return group
    return None


def _merged(tensor: Tensor, size: int) -> Group | None:
    """Return the sizes of two leading axes of a tensor if they merge into one axis of `size`.

    Several axes count as two: the last of them, and all others. None if the last is not longer.
    """
    if not tensor.is_static:
        return None
    for count in range(2, len(tensor.dims) + 1):
        if math.prod(tensor.dims[:count]) == size:
            inner = tensor.dims[count - 1]
            return (size // inner, inner) if 1 < size // inner < inner else None
    return None
