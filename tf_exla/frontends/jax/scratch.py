"""Scratch memory of XLA's code for ops that are not fused.

For a CPU, the numbers are from `memory_analysis()` of JAX 0.6.2 for matrices of 3,000 x 3,000.
Operands of products that Eigen packs are outside of XLA's buffers. They are counted as in the
certificate (`outside.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tf_exla.frontends.jax.outside import packing
from tf_exla.frontends.jax.primitives.rules import params_of
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Node
from tf_exla.model.xla_gpu import GPU_SCRATCH, Bound, Product, copies
from tf_exla.model.xla_module import TREE, reduced_sizes


def _tree(node: Node) -> int:
    """Count the partial results of a reduction: one for 32 elements, and one for 32 of these."""
    sizes = reduced_sizes(node)
    if all(size <= TREE for size in sizes) or not node.inputs[0].size:
        return 0
    part = node.inputs[0].nbytes
    for size in sizes:
        part = part // max(size, 1) * math.ceil(size / TREE)
    return part + part // TREE


def _running(node: Node) -> int:
    """Count two copies of the operand, padded to whole blocks of 16, and the sums of blocks."""
    return 2 * node.inputs[0].nbytes + node.inputs[0].nbytes // 8


def _selected(node: Node) -> int:
    """Count a copy of the rows, which XLA's own selection makes; for float64 also integer keys."""
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


# On a GPU, as in `model/xla_gpu.py`.

_SHORT = 3000
"""Lines of up to this length were sorted with one copy of the operand, lines of 90,001 and of
5,000,000 elements with four."""


def _sorted(node: Node) -> int:
    """Count copies of the operands: one, or four for a single operand with long lines."""
    x = node.inputs[0]
    axis = -1 if node.op == "sort" else params_of(node)["dimension"]
    long = len(node.inputs) == 1 and x.dims[axis] > _SHORT
    return sum(one.nbytes for one in node.inputs) * (4 if long else 1)


JAX_GPU_SCRATCH: Mapping[str, Bound] = {
    **GPU_SCRATCH,
    # Matrices of 3 to 32 MB in float64.
    **dict.fromkeys(("lax.eigh", "lax.lu", "lax.qr", "lax.svd"), copies(0)),
    **dict.fromkeys(("lax.sort", "sort"), _sorted),
}
