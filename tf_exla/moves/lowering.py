"""Lowering: ops that need an axis whole, written as ops that do not.

A softmax over keys, the index of a minimum, or a diagonal cannot be computed from a chunk of the
axis. The sums, minima and comparisons of positions of which they consist can be. Lowered programs
need more passes over the data, so they are tried only if no other form fits the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tf_exla.ir.builder import Builder
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, with_subgraphs
from tf_exla.moves import row_lookups
from tf_exla.moves.image_patches import patches
from tf_exla.vocabulary.rules.builders import integer


def lower(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Lower the nodes that touch a tensor of more than `least` bytes, also in sub-graphs."""
    nodes: list[Node] = []
    makers = producers(graph)
    for node in graph.nodes:
        node = with_subgraphs(node, lambda sub: lower(sub, ops, least))
        nodes.extend(_lowered(node, ops, least, makers) or (node,))
    made = graph.with_nodes(nodes)
    return graph if made is graph else clean(made, ops)


def _lowered(
    node: Node, ops: OpSet, least: int, makers: Mapping[Tensor, Node]
) -> list[Node] | None:
    how = LOWERINGS.get(node.op)
    tensors = (*node.inputs, *node.outputs)
    if how is None or node.stateful or not all(tensor.is_static for tensor in tensors):
        return None
    if max(tensor.nbytes for tensor in tensors) <= least:
        return None
    writer = Builder(node, ops)
    made = _plus_diagonal(writer, node, makers) or how(writer, node)
    results = made if isinstance(made, tuple) else (made,)
    replaced = {}
    for result, output in zip(results, node.outputs, strict=True):
        if result is None or (result.dtype, result.shape) != (output.dtype, output.shape):
            return None
        replaced[result] = output
    return [one.renamed(replaced) for one in writer.nodes]


def _mean(w: Builder, node: Node) -> Tensor | None:
    """mean x = sum x / count

    In a short dtype, the sum and the count of many numbers are inexact or overflow, so a longer one
    is used.
    """
    x, axes = node.inputs
    if axes.value is None or x.dtype not in _ADDED_AS or not node.output.size:
        return None
    dtype, keep_dims = _ADDED_AS[x.dtype], bool(node.attrs.get("keep_dims", False))
    wide = w.cast(x, dtype)
    total = w.op("sum", wide, axes, keep_dims=keep_dims)
    divide = "truncate_divide" if "int" in dtype else "divide"
    return w.cast(w.op(divide, total, w.const(x.size // node.output.size, dtype)), x.dtype)


# TensorFlow's kernel of Mean also adds in a longer dtype, except for float16: the mean of 999 times
# the number 900 is infinite there.
_ADDED_AS: Mapping[str, str] = {
    **{dtype: dtype for dtype in ("float32", "float64", "complex64", "complex128")},
    **dict.fromkeys(("float16", "bfloat16"), "float32"),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "int64"),
    **dict.fromkeys(("uint8", "uint16"), "uint64"),
}


# Softmax: the maximum and the sum of a row become results, so that chunks of it can be combined.


def _softmax(w: Builder, node: Node) -> Tensor:
    """softmax(x) = exp(x - max x) / sum exp(x - max x)"""
    shifted = _shifted(w, node.inputs[0])
    e = w.op("exp", shifted)
    return w.op("divide", e, w.op("sum", e, w.const([-1]), keep_dims=True))


def _log_softmax(w: Builder, node: Node) -> Tensor:
    """log softmax(x) = x - max x - log sum exp(x - max x)"""
    shifted = _shifted(w, node.inputs[0])
    total = w.op("sum", w.op("exp", shifted), w.const([-1]), keep_dims=True)
    return w.op("subtract", shifted, w.op("log", total))


def _cross_entropy(w: Builder, node: Node) -> tuple[Tensor, Tensor] | None:
    """sum labels (log sum exp(x - max x) - (x - max x)), and softmax(x) - labels"""
    x, labels = node.inputs
    rows, classes = node.outputs[1].dims
    if x.dims[-1] != classes:  # a single logit is broadcast to all classes
        return None
    last = w.const([-1])
    shifted = _shifted(w, x)
    e = w.op("exp", shifted)
    total = w.op("sum", e, last, keep_dims=True)
    losses = w.op("multiply", labels, w.op("subtract", w.op("log", total), shifted))
    gradient = w.op("subtract", w.op("divide", e, total), labels)
    return w.op("reshape", w.op("sum", losses, last), w.const([rows])), gradient


def _sparse_cross_entropy(w: Builder, node: Node) -> tuple[Tensor, Tensor]:
    """-log softmax(x) at the label, and softmax(x) - one_hot(label)

    An invalid label is an error on a CPU, as it is for the op. On other devices the loss is then
    0 / 0, which is NaN as that of the op.
    """
    x, labels = node.inputs
    rows, classes = x.dims
    own = row_lookups.places(w, labels, classes, 1, 2)
    last = w.const([-1])
    largest = w.op("max", x, last, keep_dims=True)
    e = w.op("exp", w.op("subtract", x, largest))
    total = w.op("sum", e, last, keep_dims=True)
    one = w.op("where", own, w.const(1, x.dtype), w.zeros(x))
    picked = w.op("sum", w.op("where", own, x, w.zeros(x)), last, keep_dims=True)
    picked = w.op("divide", picked, w.op("sum", one, last, keep_dims=True))
    loss = w.op("subtract", w.op("log", total), w.op("subtract", picked, largest))
    gradient = w.op("subtract", w.op("divide", e, total), one)
    return w.op("reshape", loss, w.const([rows])), gradient


def _one_hot(w: Builder, node: Node) -> Tensor:
    """one_hot(i) = on where the position along the new axis is i, else off"""
    indices, _, on, off = node.inputs
    dims = list(node.output.dims)
    axis = integer(node, "axis", -1) % len(dims)
    wide = indices.dtype if indices.dtype == "int64" else "int32"
    places = w.cast(w.positions(dims[axis], axis, len(dims)), wide)
    shape = [*dims[:axis], 1, *dims[axis + 1 :]]
    hot = w.op("equal", w.shaped(w.cast(indices, wide), shape), places)
    return w.op("where", hot, on, off)


def _shifted(w: Builder, x: Tensor) -> Tensor:
    return w.op("subtract", x, w.op("max", x, w.const([-1]), keep_dims=True))


# To combine chunks, the index of the least or largest number needs that number as well. Both must
# come from one pass: a number that is computed twice may differ in its last bit.


def _arg_reduction(op: str) -> Callable[[Builder, Node], Tensor | None]:
    def lowering(w: Builder, node: Node) -> Tensor | None:
        """argmin x = the position that comes with min x"""
        x, axis = node.inputs
        if axis.value is None or axis.dtype != "int32" or x.dtype not in _ORDERED:
            return None
        values = Tensor(node.output.shape, x.dtype, f"{w.name}/values")
        places = Tensor(node.output.shape, node.output.dtype, w.name)
        w.nodes.append(
            Node(op, node.inputs, (values, places), name=f"{w.name}/{op}", source=w.source)
        )
        return places

    return lowering


_ORDERED = frozenset({"float32", "float64", "int32", "int64"})


# Diagonals and bands: a comparison of the positions of rows and columns.


def _offset(node: Node, position: int) -> int | None:
    """Return column - row of the diagonal that an operand names; None if it names several."""
    value = node.inputs[position].value
    offsets = [] if value is None else np.ravel(value).tolist()
    return int(offsets[0]) if len(set(offsets)) == 1 else None


def _on_diagonal(w: Builder, matrix: Tensor, offset: int) -> Tensor:
    *_, rows, columns = matrix.dims
    return w.op("equal", w.positions(rows, 0, 2, offset), w.positions(columns, 1, 2))


def _of_rows(w: Builder, d: Tensor, matrix: Tensor, offset: int) -> Tensor:
    """Return a diagonal as a column, [..., rows, 1]; 0 in rows that it does not cross."""
    *batch, rows, _ = matrix.dims
    before = max(-offset, 0)
    zeros = [
        w.op("full", w.const([*batch, count]), w.zeros(d)) if count else None
        for count in (before, rows - before - d.dims[-1])
    ]
    parts = [part for part in (zeros[0], d, zeros[1]) if part is not None]
    if len(parts) > 1:
        d = w.op("concat", *parts, w.const(len(batch)))
    return w.op("reshape", d, w.const([*batch, rows, 1]))


def _band_part(w: Builder, node: Node) -> Tensor | None:
    """band_part(x) = x where -upper <= row - column <= lower, else 0"""
    x = node.inputs[0]
    bounds = [tensor.value for tensor in node.inputs[1:]]
    if bounds[0] is None or bounds[1] is None:
        return None
    lower, upper = int(bounds[0]), int(bounds[1])
    *_, rows, columns = x.dims
    tests = []
    for bound, row_start, column_start, op in (
        (lower, -lower, 0, "less_equal"),
        (upper, upper, 0, "greater_equal"),
    ):
        if bound >= 0:
            left = w.positions(rows, 0, 2, row_start)
            tests.append(w.op(op, left, w.positions(columns, 1, 2, column_start)))
    if not tests:
        return None
    inside = tests[0] if len(tests) == 1 else w.op("logical_and", *tests)
    return w.op("where", inside, x, w.zeros(x))


def _set_diag(w: Builder, node: Node) -> Tensor | None:
    """set_diag(x, d) = d[row] where column = row + k, else x"""
    x, d = node.inputs[:2]
    offset = _offset(node, 2)
    if offset is None:
        return None
    return w.op("where", _on_diagonal(w, x, offset), _of_rows(w, d, x, offset), x)


def _plus_diagonal(w: Builder, node: Node, makers: Mapping[Tensor, Node]) -> Tensor | None:
    """set_diag(x, diag_part(x) + d) = x + diag(d), which needs no diagonal of x"""
    total = makers.get(node.inputs[1]) if node.op == "matrix_set_diag" else None
    offset = _offset(node, 2) if total is not None else None
    if total is None or offset is None or total.op not in ("add", "subtract"):
        return None
    x = node.inputs[0]
    for position, tensor in enumerate(total.inputs if total.op == "add" else total.inputs[:1]):
        part = makers.get(tensor)
        if part is None or part.op != "matrix_diag_part" or part.inputs[0] is not x:
            continue
        d = total.inputs[1 - position]
        if _offset(part, 1) == offset and d.shape == total.output.shape:
            rows = _of_rows(w, d, x, offset)
            diagonal = w.op("where", _on_diagonal(w, x, offset), rows, w.zeros(x))
            return w.op(total.op, x, diagonal)
    return None


def _diag(w: Builder, node: Node) -> Tensor | None:
    """diag(d) = d[row] where column = row + k, else 0"""
    d, matrix = node.inputs[0], node.output
    padding, offset = node.inputs[4].value, _offset(node, 1)
    if offset is None or padding is None or np.any(padding):
        return None
    spread = _of_rows(w, d, matrix, offset)
    return w.op("where", _on_diagonal(w, matrix, offset), spread, w.zeros(d))


def _diag_part(w: Builder, node: Node) -> Tensor | None:
    """diag_part(x) = sum over columns of x where column = row + k, else 0; `any` for booleans"""
    x, dims = node.inputs[0], node.output.dims
    offset = _offset(node, 1)
    if offset is None:
        return None
    kept = _on_diagonal(w, x, offset)
    if x.dtype == "bool":
        of_rows = w.op("any", w.op("logical_and", kept, x), w.const([-1]))
    else:
        of_rows = w.op("sum", w.op("where", kept, x, w.zeros(x)), w.const([-1]))
    if of_rows.dims == dims:
        return of_rows
    begin = [0] * (len(dims) - 1) + [max(-offset, 0)]
    return w.op("slice", of_rows, w.const(begin), w.const(dims))


Lowering = Callable[[Builder, Node], Tensor | tuple[Tensor, ...] | None]


def _scattered_sum(op: str) -> Lowering:
    """x with u added at places = x + scatter(u)

    The scatter is a sum over the rows of u, which may be split. Then x is added once.
    """

    def sums(w: Builder, node: Node) -> Tensor | None:
        x, places, values = node.inputs
        shape = w.const(x.dims, places.dtype)
        return w.op(op, x, w.op("scatter_nd", places, values, shape))

    return sums


LOWERINGS: Mapping[str, Lowering] = {
    "argmax": _arg_reduction("max_with_position"),
    "argmin": _arg_reduction("min_with_position"),
    "log_softmax": _log_softmax,
    "band_part": _band_part,
    "cross_entropy": _cross_entropy,
    "image_patches": patches,
    "matrix_diag_part": _diag_part,
    "matrix_diag": _diag,
    "matrix_set_diag": _set_diag,
    "mean": _mean,
    "one_hot": _one_hot,
    "scatter_add": _scattered_sum("add"),
    "scatter_rows": row_lookups.scatter_rows,
    "scatter_subtract": _scattered_sum("subtract"),
    "softmax": _softmax,
    "sparse_cross_entropy": _sparse_cross_entropy,
    "take": row_lookups.take,
}
