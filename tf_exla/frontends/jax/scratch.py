"""Scratch memory of XLA's CPU code for ops that are not fused.

Taken from `memory_analysis()` of JAX 0.6.2 for matrices of 3,000 x 3,000. Operands of products that
Eigen packs are outside of XLA's buffers, and counted as in the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tf_exla.frontends.jax.outside import packing
from tf_exla.ir.axis_rule import Axes, AxisRule
from tf_exla.ir.graph import Node
from tf_exla.model.xla_module import TREE, reduced_sizes

Bound = Callable[[Node], int]


def copies(*positions: int) -> Bound:
    """Count copies of operands with contiguous columns, as LAPACK requires them."""
    return lambda node: sum(node.inputs[k].nbytes for k in positions)


def _tree(node: Node) -> int:
    """Count the partial results of a reduction: one per 32 elements, and one per 32 of these."""
    sizes = reduced_sizes(node)
    if all(size <= TREE for size in sizes) or not node.inputs[0].size:
        return 0
    part = node.inputs[0].nbytes
    for size in sizes:
        part = part // max(size, 1) * math.ceil(size / TREE)
    return part + part // TREE


def _running(node: Node) -> int:
    """Count sums of blocks of 16, in two copies that are padded to whole blocks."""
    return 2 * node.inputs[0].nbytes + node.inputs[0].nbytes // 8


def _selected(node: Node) -> int:
    """Count a copy of the rows, as XLA's own selection has it, and for float64 integer keys."""
    x = node.inputs[0]
    return x.nbytes * (2 if x.dtype == "float64" else 1)


PRODUCTS = frozenset({"batch_matmul", "einsum", "lax.dot_general", "matmul"})


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


def packed(node: Node, rule: AxisRule) -> int:
    """Return the bytes packed for a product; 0 unless it has two operands with known axes."""
    sizes = Product.of(node, rule)
    if sizes is None:
        return 0
    item = node.outputs[0].nbytes // max(1, node.outputs[0].size)
    return sizes.batch * packing(sizes.rows, sizes.inner, sizes.columns, item)


def _labels(axes: Axes | None) -> frozenset[str]:
    return frozenset(axis.label for axis in axes or () if axis is not None)


SCRATCH: Mapping[str, Bound] = {
    **dict.fromkeys(("all", "any", "max", "mean", "min", "prod", "sum"), _tree),
    "cholesky": copies(0),
    **dict.fromkeys(("cumprod", "cumsum"), _running),
    "solve_triangular": copies(0, 1),
    "top_k": _selected,
    "lax.sort": lambda node: sum(tensor.nbytes for tensor in node.inputs),
}
