"""Scratch memory of XLA's CPU code for ops that are not fused.

Taken from `memory_analysis()` of JAX 0.6.2 for matrices of 3,000 x 3,000. Operands of products that
Eigen packs are outside of XLA's buffers, and counted as in the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tf_exla.frontends.jax.outside import packing
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Node
from tf_exla.model.xla_gpu import Bound, Product, copies
from tf_exla.model.xla_module import TREE, reduced_sizes


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


def packed(node: Node, rule: AxisRule) -> int:
    """Return the bytes packed for a product; 0 unless it has two operands with known axes."""
    sizes = Product.of(node, rule)
    if sizes is None:
        return 0
    item = node.outputs[0].nbytes // max(1, node.outputs[0].size)
    return sizes.batch * packing(sizes.rows, sizes.inner, sizes.columns, item)


SCRATCH: Mapping[str, Bound] = {
    **dict.fromkeys(("all", "any", "max", "mean", "min", "prod", "sum"), _tree),
    "cholesky": copies(0),
    **dict.fromkeys(("cumprod", "cumsum"), _running),
    "solve_triangular": copies(0, 1),
    "top_k": _selected,
    "radix_counts": lambda node: 3 * node.inputs[0].nbytes,
    "sort": copies(0),
    "lax.sort": lambda node: sum(tensor.nbytes for tensor in node.inputs),
}
