"""Scatters of rows: each row of values is scattered into the same row of a matrix.

The gradients of `sort`, `top_k` and of gathers with batch dimensions scatter into a flat [n m], at
the indices `row m + column`; several batch dimensions are merged into one axis of rows. A graph of
neighbours is scattered at `[row, column]`. If row i of the indices contains i as its row, the
scatter is replaced by `scatter_rows` (or `update_rows`), which has only columns as indices. So its
rows may be split. These two are ops of this package: a front end numbers the rows of a chunk.

An index outside of its row is an error, as it is in the gather whose gradient this is. (In a
scatter that the user wrote by hand, a larger column would mean an element of the next row.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Array, Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.static_integers import static_integers
from tf_exla.ir.traits import RESHAPES
from tf_exla.ir.traverse import producers, with_subgraphs

_UPDATES = frozenset(
    {
        "scatter_add",
        "scatter_max",
        "scatter_min",
        "scatter_subtract",
        "scatter_update",
    }
)


def scatter_rows(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Write scatters with results of more than `least` bytes row by row, also in sub-graphs."""
    made_by = producers(graph)
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, lambda sub: scatter_rows(sub, ops, least))
        nodes.extend(_by_rows(node, ops, made_by, least) or [node])
    return graph.with_nodes(nodes)


def _by_rows(
    node: Node, ops: OpSet, made_by: Mapping[Tensor, Node], least: int
) -> list[Node] | None:
    update = node.op in _UPDATES
    if not update and node.op not in ("scatter_nd", "segment_sum"):
        return None
    if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)):
        return None
    if node.output.nbytes <= least or not node.output.size:
        return None
    if node.op == "segment_sum":
        values, indices = node.inputs[:2]
        depth = 1
    else:
        indices, values = node.inputs[1:] if update else node.inputs[:2]
        depth = indices.dims[-1] if indices.dims else 0
    found = None
    if depth == 1 and not update:
        found = _flat(indices, node.output.dims[0], made_by)
    elif depth == 2:
        found = _coordinates(indices, node.output.dims[:2], made_by)
    if found is None:
        return None
    columns, batch, width = found
    inner = node.output.dims[depth:]
    count = columns.size // math.prod(batch)
    w = Builder(node, ops)
    columns = w.shaped(columns, (*batch, count))
    values = w.shaped(values, (*batch, count, *inner))
    shape = (*batch, width, *inner)
    flat = shape != node.output.dims
    result = Tensor(shape, node.output.dtype, node.output.name + "/rows") if flat else node.output
    attrs: dict[str, object] = {}
    if update:
        operands, kind = (node.inputs[0], columns, values), "update_rows"
        attrs["scatter"] = node.op
    else:
        operands, kind = (columns, values, w.const(list(shape))), "scatter_rows"
    made = Node(kind, operands, (result,), attrs, name=node.name, source=node.source)
    w.nodes.append(made)
    if flat:
        w.op("reshape", result, w.const(list(node.output.dims)))
        return w.ended(node.output)
    return w.nodes


_Found = tuple[Tensor, tuple[int, ...], int]  # columns, the rows' axes, elements of a row


def _flat(indices: Tensor, total: int, made_by: Mapping[Tensor, Node]) -> _Found | None:
    """Match indices `row m + column`, through reshapes; `row m` may be a sum of several terms.

    Return the columns, the sizes of the axes of rows, and m.
    """
    node = made_by.get(indices)
    while node is not None and node.op in RESHAPES:
        node = made_by.get(node.inputs[0])
    if node is None or node.op != "add":
        return None
    for columns, number in reversed(list(_numbered(node.output, made_by))):
        for lead in range(len(columns.dims), 0, -1):
            batch, rest = columns.dims[:lead], columns.dims[lead:]
            rows = math.prod(batch)
            if number.shape != (*batch, *(1 for _ in rest)) or rows < 2 or total % rows:
                continue
            width = total // rows
            if np.array_equal(number.ravel(), np.arange(rows) * width):
                return columns, batch, width
    return None


def _numbered(added: Tensor, made_by: Mapping[Tensor, Node]) -> Iterator[tuple[Tensor, Array]]:
    """Yield each split of a sum into an operand of its shape, and the known sum of all others."""
    number: Array = np.zeros((1,) * len(added.dims), np.int64)
    while (node := made_by.get(added)) is not None and node.op == "add":
        for one, other in (node.inputs, node.inputs[::-1]):
            known = static_integers(other, made_by)
            if known is not None and known.ndim == number.ndim and one.dims == added.dims:
                added, number = one, np.add(number, known)
                yield added, number
                break
        else:
            return


def _coordinates(
    indices: Tensor, shape: tuple[int, ...], made_by: Mapping[Tensor, Node]
) -> _Found | None:
    """Match indices `[row, column]`, stacked or concatenated along the last axis; as `_flat`."""
    node = made_by.get(indices)
    while node is not None and node.op in RESHAPES and node.inputs[0].dims[-1:] == (2,):
        node = made_by.get(node.inputs[0])
    if node is None or node.output.dims[-1:] != (2,):
        return None
    last = len(node.output.dims) - 1
    if node.op == "stack" and node.attrs.get("axis") in (-1, last):
        numbers, columns = node.inputs
    elif node.op == "concat" and len(node.inputs) == 3 and _joins(node, last):
        numbers, columns = node.inputs[:2]
    else:
        return None
    rows, width = shape
    if rows < 2 or columns.size % rows:
        return None
    known = static_integers(numbers, made_by)
    if known is None or not np.all(known.reshape(rows, -1) == np.arange(rows)[:, None]):
        return None
    return columns, (rows,), width


def _joins(node: Node, last: int) -> bool:
    axis = node.inputs[2].value
    return axis is not None and int(axis) in (-1, last) and node.inputs[0].dims[-1] == 1
