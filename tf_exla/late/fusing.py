"""Replacements of products by nodes that XLA fuses, or computes faster, on a CPU.

- A product over an axis of one element becomes a pointwise product: a bᵀ = a * b.
- A product of a vector with the rows of a matrix, vᵀ m, becomes a sum over rows of v * m if XLA
  would fuse the producer of m into the product. The fused product traverses m column by column,
  five to twenty times as slow as a pointwise op and a sum along the rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor, item_bytes
from tf_exla.ir.op_set import OpSet
from tf_exla.model.fusion import is_simple
from tf_exla.model.settings import SETTINGS


def fusible(node: Node, makers: Mapping[Tensor, Node], ops: OpSet) -> list[Node]:
    """Return the nodes that compute a node in a cluster: itself, or those that replace it.

    `makers`: for each tensor that XLA may fuse with its readers, its producer.
    """
    if node.op != "matmul" or not all(t.is_static for t in (*node.inputs, *node.outputs)):
        return [node]
    made = _outer(node, ops) or _over_rows(node, makers, ops)
    return made or [node]


def matrix_of(node: Node) -> Tensor | None:
    """Return the matrix if a node multiplies a vector with the rows of a matrix, else None."""
    if node.op != "matmul" or not all(tensor.is_static for tensor in node.inputs):
        return None
    a, b = node.inputs
    if 1 not in node.output.dims:
        return None
    if a.size < b.size:
        return None if node.attrs.get("transpose_b") else b
    return a if node.attrs.get("transpose_a") else None


def _outer(node: Node, ops: OpSet) -> list[Node] | None:
    rows, columns = node.output.dims
    if node.inputs[0].size != rows or node.inputs[1].size != columns or not rows * columns:
        return None
    w = Builder(node, ops)
    a, b = w.shaped(node.inputs[0], (rows, 1)), w.shaped(node.inputs[1], (1, columns))
    w.op("multiply", a, b)
    return w.ended(node.output)


def _over_rows(node: Node, makers: Mapping[Tensor, Node], ops: OpSet) -> list[Node] | None:
    matrix = matrix_of(node)
    maker = None if matrix is None else makers.get(matrix)
    if matrix is None or maker is None or not is_simple(ops, maker):
        return None
    rows, columns = matrix.dims
    if min(rows, columns) < 2 or rows * item_bytes(matrix.dtype) > SETTINGS.fused_vector:
        return None
    (vector,) = (tensor for tensor in node.inputs if tensor is not matrix)
    w = Builder(node, ops)
    scaled = w.op("multiply", w.shaped(vector, (rows, 1)), matrix)
    w.shaped(w.op("sum", scaled, w.const([0]), keep_dims=False), node.output.dims)
    return w.ended(node.output)
