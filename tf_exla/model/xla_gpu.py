"""Scratch memory of the kernels in a module that XLA compiles for a GPU.

The numbers are from `memory_analysis()` of JAX 0.11.2 on an H100, as upper bounds for the shapes
named below. XLA measures several kernels when it compiles, and may choose one that needs less. The
certificate of a plan counts the one that it chose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tf_exla.ir.axis_rule import Axes, AxisRule
from tf_exla.ir.graph import Node

Bound = Callable[[Node], int]

PRODUCTS = frozenset({"batch_matmul", "einsum", "lax.dot_general", "matmul"})
CUBLAS = 32 << 20
"""The workspace of a product, as of 3,000 x 3,000 by itself and of 64 x 64 by 64 x 100,000.

A matrix of 12 MB by its own transpose needed 8 MB more: XLA cut the sum into parts.
"""
_NARROW = 10
"""The longest inner axis of a product without a workspace; 3, 7 and 10 elements were measured."""
_FEW = 16
"""The most neighbours that XLA selects without a sort, in float32."""


@dataclass(frozen=True)
class Product:
    """The sizes of a product: of its batch, the rows of the result, the inner axis, the columns."""

    batch: int
    rows: int
    inner: int
    columns: int

    @staticmethod
    def of(node: Node, rule: AxisRule) -> Product | None:
        """Return the sizes; None unless there are two operands with known axes."""
        if len(node.inputs) != 2 or None in rule.operands:
            return None
        left, right, made = (_labels(axes) for axes in (*rule.operands, rule.results[0]))

        def size(labels: frozenset[str]) -> int:
            return math.prod(rule.sizes[label] for label in labels)

        inner = left & right - made
        return Product(
            size(left & right & made), size(left - right), size(inner), size(right - left)
        )


def _labels(axes: Axes | None) -> frozenset[str]:
    return frozenset(axis.label for axis in axes or () if axis is not None)


def workspace(node: Node, rule: AxisRule) -> int:
    """Return the bytes of the workspace of a product: 0 for vectors and for short inner axes."""
    sizes = Product.of(node, rule)
    if sizes is None:
        return CUBLAS
    return CUBLAS if min(sizes.rows, sizes.columns) > 1 and sizes.inner > _NARROW else 0


def copies(*positions: int) -> Bound:
    """Count copies of the operands at `positions`: libraries require contiguous columns."""
    return lambda node: sum(node.inputs[k].nbytes for k in positions)


def _running(node: Node) -> int:
    """Count the sums of blocks, as an eighth of the operand.

    They took a fifteenth for operands of 3,000 x 3,000, 100 x 90,001 and 5,000,000 elements.
    """
    return node.inputs[0].nbytes // 8


def _selected(node: Node) -> int:
    """Count a sort of the operand with its indices; none for few neighbours in float32."""
    x, made = node.inputs[0], node.outputs[0]
    if x.dtype == "float32" and made.dims[-1] <= _FEW:
        return 0
    return x.nbytes + 4 * x.size


GPU_SCRATCH: Mapping[str, Bound] = {
    # 3,000 x 3,000, and 80 of 90 x 90 in float64 and float32.
    "cholesky": copies(0),
    # 2,000 x 2,000 and 3,000 x 3,000, for one column and for thousands.
    "solve_triangular": copies(0, 1),
    **dict.fromkeys(("cumprod", "cumsum"), _running),
    "top_k": _selected,
}
"""Reductions, softmax and gathers took next to nothing."""
