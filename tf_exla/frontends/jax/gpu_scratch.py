"""Scratch memory of XLA's GPU code for primitives of JAX, as in `model/xla_gpu.py`."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.jax.primitives.rules import params_of
from tf_exla.ir.graph import Node
from tf_exla.model.xla_gpu import GPU_SCRATCH, Bound, copies

_SHORT = 3000
"""Lines that were sorted with a copy of the operand; lines of 90,001 and 5,000,000 took four."""


def _sorted(node: Node) -> int:
    """Count copies of the operands; with an operand of indices, lines of any length took one."""
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
