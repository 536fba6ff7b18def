"""Numbers added to a diagonal, in one pass over a matrix.

Plans read a diagonal as a masked sum, and write it by a mask of equal row and column numbers. XLA
then writes the matrix, reads it for the sum, and reads it again to write another. Adding to a
diagonal needs no sum: `where(mask, x + e, x)` has the same elements, except for the sign of a zero,
and XLA fuses it with the computation of `x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tf_exla.frontends.jax.op_set import JaxOps
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.traits import IDENTITIES, RESHAPES
from tf_exla.ir.traverse import producers, with_subgraphs, without_dead

_ADDING = frozenset({"add", "subtract"})


def in_one_pass(graph: Graph, different: Iterable[Tensor] = ()) -> Graph:
    """Return a graph that adds to diagonals without summing; the same graph if nothing changes.

    `different`: inputs whose elements are distinct, such as row numbers.
    """
    maker = producers(graph)
    known = set(different)
    nodes: list[Node] = []
    for node in graph.nodes:
        if _counts(node, known):
            known.update(node.outputs)
        inner = _subgraphs(node, known)
        added = _added(inner, maker, known)
        nodes += [inner] if added is None else added
    made = graph.with_nodes(nodes)
    return graph if made is graph else without_dead(made)


def _counts(node: Node, different: set[Tensor]) -> bool:
    """Return whether the elements of a node's result are certainly distinct integers."""
    if not node.outputs or not node.outputs[0].dtype.startswith("int"):
        return False
    if node.op == "arange":
        return True
    if node.op == "constant":
        value = node.output.value
        return value is not None and value.ndim > 0 and np.unique(value).size == value.size
    return (node.op in RESHAPES or node.op in IDENTITIES) and node.inputs[0] in different


def _subgraphs(node: Node, different: set[Tensor]) -> Node:
    """Return a node with changed sub-graphs: the bodies of a loop, or those of another node.

    Bodies that must compute the same bits as others stay unchanged.
    """
    if not isinstance(node, Loop):
        return with_subgraphs(node, in_one_pass)
    if node.bitwise_group is not None:
        return node
    given = [k for k, one in enumerate(node.inputs) if one in different]  # so are their chunks
    return with_subgraphs(
        node, lambda body: in_one_pass(body, [body.inputs[position] for position in given])
    )


def _added(node: Node, maker: Mapping[Tensor, Node], different: set[Tensor]) -> list[Node] | None:
    """Return the replacement of where(mask, sum(where(mask, x, 0), -1) + e, x); else None.

    The mask chooses at most one element of each row, so the sum equals that element.
    """
    if node.op != "where" or not all(one.is_static for one in (*node.inputs, node.output)):
        return None
    mask, chosen, x = node.inputs
    if x.dims != node.output.dims or not _chooses_one(maker.get(mask), x, different):
        return None
    column = maker.get(chosen)
    if column is None or column.op not in RESHAPES or chosen.dims != (*x.dims[:-1], 1):
        return None
    total = maker.get(column.inputs[0])
    if total is None or total.op not in _ADDING or total.output.dims != x.dims[:-1]:
        return None
    for position, one in enumerate(total.inputs):
        if not _is_diagonal(one, mask, x, maker):
            continue
        w = Builder(node, JaxOps())
        other = total.inputs[1 - position]
        if other.dims != x.dims[:-1]:
            return None
        spread = w.op("reshape", other, w.const([*x.dims[:-1], 1]))
        made = w.op(total.op, *((x, spread) if position == 0 else (spread, x)))
        return [*w.nodes, node.replace(inputs=(mask, made, x))]
    return None


def _chooses_one(mask: Node | None, x: Tensor, different: set[Tensor]) -> bool:
    """Return whether a mask compares one number per row with distinct numbers of columns."""
    if mask is None or mask.op != "equal" or not x.dims:
        return False
    return any(
        columns in different
        and columns.size == x.dims[-1] == columns.dims[-1]
        and rows.size > 0
        and rows.dims[-1:] == (1,)
        for rows, columns in (mask.inputs, mask.inputs[::-1])
    )


def _is_diagonal(tensor: Tensor, mask: Tensor, x: Tensor, maker: Mapping[Tensor, Node]) -> bool:
    """Return whether a tensor is sum(where(mask, x, 0), -1)."""
    node = maker.get(tensor)
    if node is None or node.op != "sum" or tensor.dims != x.dims[:-1] or tensor.dtype != x.dtype:
        return False
    axes = node.inputs[1].value
    if axes is None or [int(axis) % len(x.dims) for axis in axes.ravel()] != [len(x.dims) - 1]:
        return False
    kept = maker.get(node.inputs[0])
    if kept is None or kept.op != "where" or kept.inputs[:2] != (mask, x):
        return False
    rest = kept.inputs[2].value
    return kept.output.dims == x.dims and rest is not None and not np.any(rest)
