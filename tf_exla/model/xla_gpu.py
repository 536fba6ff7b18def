"""Memory of a module that XLA compiles for a GPU: its kernels' scratch, which are XLA's buffers.

Taken from `memory_analysis()` of JAX 0.11 on an H100, for matrices of up to 5,000,000 elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tf_exla.ir.graph import Node

Bound = Callable[[Node], int]

CUBLAS = 32 << 20
"""The workspace that XLA gives cuBLAS for a product on an H100, whatever its size."""


def _operands(part: float) -> Bound:
    return lambda node: int(part * sum(tensor.nbytes for tensor in node.inputs))


GPU_SCRATCH: Mapping[str, Bound] = {
    **dict.fromkeys(("batch_matmul", "einsum", "lax.dot_general", "matmul"), lambda node: CUBLAS),
    **dict.fromkeys(("cholesky", "solve_triangular"), _operands(1)),
}
"""Upper bounds by op."""


def gpu_scratch(node: Node) -> int:
    """Return an upper bound of the scratch bytes of a node's code."""
    bound = GPU_SCRATCH.get(node.op)
    if bound is None or not all(tensor.is_static for tensor in node.inputs):
        return 0
    return bound(node)
