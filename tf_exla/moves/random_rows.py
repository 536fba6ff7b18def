"""Random tensors drawn by rows or columns, with the same bits as if they were drawn at once.

Stateless random ops encrypt a counter (Philox, Salmon et al. 2011): block b of a tensor's numbers
comes from `counter + b`. So some rows can be drawn without the others. `random_rows` is an op of
this package. Two of its operands are the indices of its rows and columns, and a chunk has a part of
them. If a chunk has a part of the columns, each row is drawn by itself. This is needed for paths of
a simulation, for example, if the axis of steps comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import groupby

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import walk, with_subgraphs
from tf_exla.model.settings import SETTINGS

PHILOX = (1, 3)
"""TensorFlow's numbers of algorithms that are Philox: that of Philox, and the automatic choice."""
SPLIT = frozenset(
    {
        "stateless_normal",
        "stateless_uniform_full_int",
        "stateless_uniform_int",
        "stateless_uniform",
        "stateless_truncated_normal",
    }
)


def random_rows(graph: Graph, ops: OpSet, together: int, each: int = 0) -> Graph:
    """Draw random tensors by rows and columns, also in sub-graphs, except for the smallest.

    Tensors of at most `each` bytes are left as they are. So are the smallest of the others, up to
    `together` bytes in total: a hundred layers with dropout, for example, each keep a small tensor
    for the gradient.
    """
    drawn = [node for node in walk(graph) if _has_rows(node) and node.output.nbytes > each]
    large = frozenset(_large(drawn, together))
    return _drawn_by_rows(graph, ops, large) if large else graph


def _large(drawn: list[Node], together: int) -> Iterator[Node]:
    """Yield all nodes except for the smallest, up to `together` bytes of results in total."""
    total = 0
    for nbytes, nodes in groupby(sorted(drawn, key=_bytes), _bytes):
        same = list(nodes)
        total += nbytes * len(same)
        if total > together:
            yield from same


def _bytes(node: Node) -> int:
    return node.output.nbytes


def _drawn_by_rows(graph: Graph, ops: OpSet, large: frozenset[Node]) -> Graph:
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, lambda sub: _drawn_by_rows(sub, ops, large))
        nodes.extend(_by_rows(node, ops) if node in large else [node])
    return graph.with_nodes(nodes)


def _has_rows(node: Node) -> bool:
    """Return whether a node draws by Philox, and its result has rows of more than one number."""
    if node.op not in SPLIT or not all(t.is_static for t in (*node.inputs, *node.outputs)):
        return False
    algorithm = node.inputs[3].value
    return algorithm is not None and int(algorithm) in PHILOX and _leading(node.output) > 0


def _leading(drawn: Tensor) -> int:
    """Return how many leading axes are merged into the axis of rows; 0 if there are no rows.

    For a batch of matrices, the rows are those of all matrices, so that a single matrix can be
    split as well. This is done only for rows of at least `_ELEMENTS` elements.
    """
    found = 0
    for axis in range(len(drawn.dims) - 1):
        rows, each = math.prod(drawn.dims[: axis + 1]), math.prod(drawn.dims[axis + 1 :])
        first = found == 0 and each > 1
        if rows > 1 and (first or each >= _ELEMENTS):
            found = axis + 1
    return found


_ELEMENTS = 64
"""The index of a row takes 8 bytes, a thirty-second of a row of this many float32 numbers."""


def _by_rows(node: Node, ops: OpSet) -> list[Node]:
    w = Builder(node, ops)
    shape, *rest = node.inputs
    dims = node.output.dims
    leading = _leading(node.output)
    count = math.prod(dims[:leading])
    rows = w.op("arange", *(w.const(value, "int64") for value in (0, count, 1)))
    columns = w.const(0, "int64")
    if SETTINGS.column_numbers * 8 * dims[leading] <= node.output.nbytes:
        columns = w.op("arange", *(w.const(value, "int64") for value in (0, dims[leading], 1)))
    attrs = {**node.attrs, "random": node.op, "row": math.prod(dims[leading:])}
    if leading == 1:
        return [*w.nodes, _drawn(node, (rows, columns, shape, *rest), node.output, attrs)]
    drawn = Tensor((count, *dims[leading:]), node.output.dtype, f"{w.name}/rows")
    flat = w.const(drawn.dims, shape.dtype)
    w.nodes.append(_drawn(node, (rows, columns, flat, *rest), drawn, attrs))
    w.op("reshape", drawn, w.const(dims))
    return w.ended(node.output)


def _drawn(
    node: Node, operands: tuple[Tensor, ...], output: Tensor, attrs: Mapping[str, object]
) -> Node:
    return Node("random_rows", operands, (output,), attrs, name=node.name, source=node.source)
