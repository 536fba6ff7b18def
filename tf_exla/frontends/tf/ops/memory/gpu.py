"""Bounds of the memory that TensorFlow's GPU kernels allocate on the device beyond their outputs.

They are for TensorFlow 2.21 on CUDA. They cover what was measured on an H100 with the libraries of
CUDA 13 and the allocator that counts the requested bytes (TF_GPU_ALLOCATOR=cuda_malloc_async;
tests/gpu/test_gpu_kernel_memory.py). cuBLAS, cuSOLVER and cuDNN choose their own workspaces, so the
bounds leave room for other choices. Products of half precision and gradients of depthwise
convolutions are a guess. cuBLAS takes its workspace outside of TensorFlow's allocator, once.
Buffers are reused as on a CPU (`Op.reuses`).
"""

from __future__ import annotations

import os
from math import prod

from tf_exla.frontends.tf.ops.memory.call import (
    Call,
    copy_of_everything,
    copy_of_output,
    itemsize,
    tensor_bytes,
    transposed_reduction,
)

WORKSPACE_VARIABLE, WORKSPACE_UNIT = "TF_CUDNN_WORKSPACE_LIMIT_IN_MB", 1 << 20
WORKSPACE = 32 << 20  # cuBLASLt's on this generation, for half precision


def moved(call: Call) -> int:
    """Count only pointers to operands, and indices that are copied from the host."""
    indices = sum(tensor_bytes(t) for t in call.inputs if t.dtype in ("int32", "int64"))
    return indices + 16 * len(call.inputs)


def product(call: Call) -> int:
    """Count pointers for each matrix of a batch, and a workspace for half precision."""
    out = call.outputs[0]
    half = WORKSPACE if itemsize(out.dtype) == 2 else 0
    return half + 64 * prod(out.shape[:-2])


def _matrices(call: Call) -> int:
    return prod(call.inputs[0].shape[:-2])


def triangular_solve(call: Call) -> int:
    """Count two pointers for each matrix; the solution is computed in the output's buffer."""
    return 64 * prod(call.outputs[0].shape[:-2])


def cholesky(call: Call) -> int:
    """Count a panel, which older cuSOLVERs hold; the factor is made in the output's buffer."""
    n = call.inputs[0].shape[-1]
    return _matrices(call) * (1024 + min(n, 64) * n * itemsize(call.inputs[0].dtype))


def lu(call: Call) -> int:
    """Count the factors in a copy of the matrices, pivots and pointers."""
    n = call.inputs[0].shape[-1]
    return tensor_bytes(call.inputs[0]) + _matrices(call) * 32 * (n + 32) + 4096


def matrix_solve(call: Call) -> int:
    """Count the factors and a copy of the right-hand side."""
    return lu(call) + copy_of_output(call)


def self_adjoint_eig(call: Call) -> int:
    """Count the memory of cuSOLVER's divide and conquer; fitted."""
    n = call.inputs[0].shape[-1]
    size = itemsize(call.inputs[0].dtype)
    return _matrices(call) * (9 * n * n // 2 + 1024 * n) * size


def svd(call: Call) -> int:
    """Count transposed copies and cuSOLVER's workspace with a square of the longer side; fitted."""
    short, long = sorted(call.inputs[0].shape[-2:])
    vectors = call.attrs.get("compute_uv", True)
    full = vectors and call.attrs.get("full_matrices", False)
    elements = long * long + 8 * short * long + 64 * long + (long * long if full else 0)
    return _matrices(call) * elements * itemsize(call.inputs[0].dtype)


_COLUMNS = 4096
"""Sums of up to this many columns take two steps."""
_SUMS = 32
"""The number of partial sums of a column."""
_TREE = 64 << 10
"""Bytes of a sum of everything: partial sums of blocks."""


def sums(call: Call) -> int:
    """Count partial sums: of columns in two steps, of everything in blocks."""
    columns = prod(call.outputs[0].shape)
    return _TREE + (_SUMS * copy_of_output(call) if columns <= _COLUMNS else 0)


def reduction(call: Call) -> int:
    """Count a transposed operand if axes alternate, and partial sums."""
    return transposed_reduction(call) + sums(call)


def softmax(call: Call) -> int:
    """Count copies of the logits and of the result in cuDNN's layout."""
    return 2 * copy_of_output(call)


def cross_entropy(call: Call) -> int:
    """Count the logits minus their maximum, and some numbers for each row."""
    return copy_of_output(call) + 4 * tensor_bytes(call.outputs[0])


_SORTED_COLUMNS = 1000
_SORTED_K = 100


def sorts(columns: int, k: int) -> bool:
    """Return whether the top-k kernel sorts rows; otherwise it keeps a heap."""
    return columns <= _SORTED_COLUMNS or k >= min(_SORTED_K, columns)


def top_k(call: Call) -> int:
    """Count a sort for short rows or large k; otherwise heaps of a row are in shared memory.

    A sort holds positions and values before and after it, and its own tables.
    """
    data, values = call.inputs[0], call.outputs[0]
    columns, k = data.shape[-1], values.shape[-1]
    rows = prod(data.shape[:-1])
    if not sorts(columns, k):
        return 0
    size = itemsize(data.dtype)
    return rows * columns * (12 + 2 * size) + rows * columns // 4 + 16 * rows + 4096


def workspace() -> int | None:
    """Return the bytes that each of cuDNN's convolutions may take, if the environment says so."""
    try:
        return int(os.environ[WORKSPACE_VARIABLE]) * WORKSPACE_UNIT
    except (KeyError, ValueError):  # TensorFlow ignores what is no number
        return None


def convolution(call: Call) -> int:
    """Count operands and results in cuDNN's order of axes, and its workspace.

    If the environment does not limit the workspace, it is assumed to be a quarter of the copies. In
    most cases the algorithms took no more.
    """
    copies, allowed = copy_of_everything(call), workspace()
    return copies + (copies // 4 if allowed is None else allowed)
