"""Scratch memory of XLA's GPU code for ops that are not fused: buffers of XLA.

Taken from `memory_analysis()` of JAX 0.11.2 on an H100, as upper bounds for the shapes that are
named. XLA measures several kernels when it compiles, and may choose one that needs less. The
certificate counts what it chose.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.jax.primitives.rules import params_of
from tf_exla.frontends.jax.scratch import Bound, Product, copies
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Node

CUBLAS = 32 << 20
"""The workspace of a product, as of 3,000 x 3,000 by itself and of 64 x 64 by 64 x 100,000.

A matrix of 12 MB by its own transpose needed 8 MB more: XLA cut the sum into parts.
"""
_NARROW = 10
"""Inner axes of 3, 7 and 10 elements had no workspace."""
_SHORT = 3000
"""Lines that were sorted with a copy of the operand; lines of 90,001 and 5,000,000 took four."""
_FEW = 16
"""The most neighbours that XLA selects without a sort, in float32."""


def workspace(node: Node, rule: AxisRule) -> int:
    """Return the workspace of a product: none for vectors, nor for short inner axes."""
    sizes = Product.of(node, rule)
    if sizes is None:
        return CUBLAS
    return CUBLAS if min(sizes.rows, sizes.columns) > 1 and sizes.inner > _NARROW else 0


def _running(node: Node) -> int:
    """Count the sums of blocks: a fifteenth of 3,000 x 3,000, 100 x 90,001 and 5,000,000."""
    return node.inputs[0].nbytes // 8


def _sorted(node: Node) -> int:
    """Count copies of the operands; with an operand of indices, lines of any length took one."""
    x, axis = node.inputs[0], params_of(node)["dimension"]
    long = len(node.inputs) == 1 and x.dims[axis] > _SHORT
    return sum(one.nbytes for one in node.inputs) * (4 if long else 1)


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
    # Matrices of 3 to 32 MB in float64.
    **dict.fromkeys(("lax.eigh", "lax.lu", "lax.qr", "lax.svd"), copies(0)),
    **dict.fromkeys(("cumprod", "cumsum"), _running),
    "lax.sort": _sorted,
    "top_k": _selected,
}
"""Reductions, softmax and gathers took next to nothing."""
