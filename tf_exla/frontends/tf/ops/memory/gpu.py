"""What TensorFlow's GPU kernels allocate on the device beyond their outputs.

Bounds for TensorFlow 2.21 on CUDA. They hold what was measured on an H100 with the allocator that
counts what is asked for (TF_GPU_ALLOCATOR=cuda_malloc_async; tests/gpu/test_gpu_kernel_memory.py)
and the libraries of CUDA 13. cuBLAS, cuSOLVER and cuDNN choose their own workspaces, so there is
room for others' choices; products of half precision and gradients of depthwise convolutions are a
guess. cuBLAS takes its workspace outside of TensorFlow's allocator, once. Buffers are reused as on
a CPU (`Op.reuses`).
"""

from __future__ import annotations

from math import prod

from tf_exla.frontends.tf.ops.memory.call import (
    Call,
    copy_of_everything,
    copy_of_output,
    itemsize,
    tensor_bytes,
    transposed_reduction,
)

_WORKSPACE = 32 << 20  # cuBLASLt's on this generation, for half precision


def moved(call: Call) -> int:
    """Nothing but pointers to many operands, and indices that are copied from the host."""
    indices = sum(tensor_bytes(t) for t in call.inputs if t.dtype in ("int32", "int64"))
    return indices + 16 * len(call.inputs)


def product(call: Call) -> int:
    """Nothing of TensorFlow's; one pointer for each matrix of a batch."""
    out = call.outputs[0]
    half = _WORKSPACE if itemsize(out.dtype) == 2 else 0
    return half + 64 * prod(out.shape[:-2])


def _matrices(call: Call) -> int:
    return prod(call.inputs[0].shape[:-2])


def triangular_solve(call: Call) -> int:
    """The right-hand side is solved in the output's buffer; two pointers for each matrix."""
    return 64 * prod(call.outputs[0].shape[:-2])


def cholesky(call: Call) -> int:
    """The factor is made in the output's buffer, in panels; older cuSOLVERs hold a panel."""
    n = call.inputs[0].shape[-1]
    return _matrices(call) * (1024 + min(n, 64) * n * itemsize(call.inputs[0].dtype))


def lu(call: Call) -> int:
    """The factors, in a copy of the matrices; pivots and pointers."""
    n = call.inputs[0].shape[-1]
    return tensor_bytes(call.inputs[0]) + _matrices(call) * 32 * (n + 32) + 4096


def matrix_solve(call: Call) -> int:
    """The factors, and a copy of the right-hand side."""
    return lu(call) + copy_of_output(call)


def self_adjoint_eig(call: Call) -> int:
    """cuSOLVER's divide and conquer; fitted."""
    n = call.inputs[0].shape[-1]
    size = itemsize(call.inputs[0].dtype)
    return _matrices(call) * (9 * n * n // 2 + 1024 * n) * size


def svd(call: Call) -> int:
    """Transposed copies and cuSOLVER's workspace, which holds a square of the rows; fitted."""
    short, long = sorted(call.inputs[0].shape[-2:])
    vectors = call.attrs.get("compute_uv", True)
    full = vectors and call.attrs.get("full_matrices", False)
    elements = long * long + 8 * short * long + 64 * long + (long * long if full else 0)
    return _matrices(call) * elements * itemsize(call.inputs[0].dtype)


_COLUMNS = 4096
"""Sums of up to so many columns are made in two steps."""
_SUMS = 32
"""Partial sums of a column."""
_TREE = 64 << 10
"""What a sum of everything takes: partial sums of blocks."""


def sums(call: Call) -> int:
    """Partial sums: of columns in two steps, of everything in blocks."""
    columns = prod(call.outputs[0].shape)
    return _TREE + (_SUMS * copy_of_output(call) if columns <= _COLUMNS else 0)


def reduction(call: Call) -> int:
    """A transposed operand where axes alternate, and partial sums."""
    return transposed_reduction(call) + sums(call)


def softmax(call: Call) -> int:
    """cuDNN's layout: a copy of the logits and one of the result."""
    return 2 * copy_of_output(call)


def cross_entropy(call: Call) -> int:
    """The logits minus their maximum, and some numbers for each row."""
    return copy_of_output(call) + 4 * tensor_bytes(call.outputs[0])


_SORTED_COLUMNS = 1000
_SORTED_K = 100


def top_k(call: Call) -> int:
    """Heaps of a row are held in shared memory; short rows and large k are sorted whole.

    A sort holds positions and values before and after, and its own tables.
    """
    data, values = call.inputs[0], call.outputs[0]
    columns, k = data.shape[-1], values.shape[-1]
    rows = prod(data.shape[:-1])
    if columns > _SORTED_COLUMNS and k < min(_SORTED_K, columns):
        return 0
    size = itemsize(data.dtype)
    return rows * columns * (12 + 2 * size) + rows * columns // 4 + 16 * rows + 4096


def convolution(call: Call) -> int:
    """Operands and results in the order of axes that cuDNN wants, and its workspace; fitted."""
    return copy_of_everything(call) * 5 // 4
