"""Emit products with a short axis as elementwise ops, in a module that XLA compiles for a GPU.

XLA fuses elementwise ops and reductions with the ops around them. It does not fuse a product of
float64 into its readers, so a kernel matrix of a few inputs was written to memory and read again.
On an H100, K v of 300,000 points took 473 ms with products and takes 309 ms without.

Products of float32 stay. XLA fuses them, and took minutes to compile these forms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.nodes.emit import emit_const
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node

LONGEST = 8
"""The most terms of a product that is written as a sum of products of a column and a row.

An element of a symmetric matrix, which is computed twice, took 12 ps with twelve terms, against
10.8 ps with a product; with three terms it took 6.6 ps against 10.2 ps.
"""


def emit_narrow(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Emit a product of two matrices (or batches of matrices) as elementwise ops.

    None if it has too many terms, or is not of float64 in a module for a GPU. If the result has one
    row or column, it is a sum over the contracted axis, of any length.
    """
    if not emitter.compiled or device() != "GPU" or node.output.dtype != "float64":
        return None
    if not all(one.is_static for one in (*node.inputs, node.output)):
        return None
    *_, rows, columns = node.output.dims
    product = _Product(emitter, node)
    if product.depth == 0 or node.output.size == 0:
        return None
    if product.depth <= LONGEST and product.depth < min(rows, columns):
        return [product.by_columns()]
    return [product.summed()] if 1 in (rows, columns) else None


class _Product:
    """A product of two operands, either of which may be transposed."""

    def __init__(self, emitter: Emitter, node: Node) -> None:
        self.emitter, self.node = emitter, node
        self.left, self.right = emitter.values(node.inputs)
        flags = node.attrs
        self.flipped = (
            bool(flags.get("transpose_a") or flags.get("adj_x")),
            bool(flags.get("transpose_b") or flags.get("adj_y")),
        )
        self.depth = node.inputs[0].dims[-2 if self.flipped[0] else -1]

    def by_columns(self) -> tf.Tensor:
        """Add up the products of a column [m, 1] of one operand and a row [1, n] of the other."""
        made: tf.Tensor | None = None
        for k in range(self.depth):
            column = self._part(0, k, contracted=-2 if self.flipped[0] else -1, kept=-2)
            row = self._part(1, k, contracted=-1 if self.flipped[1] else -2, kept=-1)
            term = self._op("Mul", column, row)
            made = term if made is None else self._op("AddV2", made, term)
        assert made is not None
        return made

    def summed(self) -> tf.Tensor:
        """Multiply the matrix with the vector and add up along the contracted axis."""
        *_, rows, _ = self.node.output.dims
        vector = 0 if rows == 1 else 1
        matrix = 1 - vector
        # The matrix's contracted axis: the first of a right operand, unless that is flipped.
        axis = -2 if (matrix == 1) != self.flipped[matrix] else -1
        shape = [*self.node.inputs[vector].dims[:-2], 1, 1]
        shape[axis] = self.depth
        operands = (self.left, self.right)
        terms = self._op("Mul", operands[matrix], self._shaped(operands[vector], shape))
        axes = emit_const(self.emitter.graph, np.array([len(terms.shape) + axis], np.int32))
        made = self.emitter.op("Sum", [terms, axes], {"keep_dims": False}).outputs[0]
        return self._shaped(made, self.node.output.dims)

    def _part(self, operand: int, k: int, contracted: int, kept: int) -> tf.Tensor:
        """Return index `k` of the contracted axis, with the other axis at place `kept`."""
        value, dims = (self.left, self.right)[operand], self.node.inputs[operand].dims
        rank = len(dims)
        begin, size = np.zeros(rank, np.int64), np.array(dims, np.int64)
        begin[contracted], size[contracted] = k, 1
        graph = self.emitter.graph
        inputs = [value, emit_const(graph, begin), emit_const(graph, size)]
        part = self.emitter.op("Slice", inputs, {}).outputs[0]
        shape = [*dims[:-2], 1, 1]
        shape[kept] = size[-2 if contracted == -1 else -1]
        return self._shaped(part, shape)

    def _shaped(self, value: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        dims = emit_const(self.emitter.graph, np.array(shape, np.int64))
        return self.emitter.op("Reshape", [value, dims], {}).outputs[0]

    def _op(self, name: str, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return self.emitter.op(name, [left, right], {}).outputs[0]
