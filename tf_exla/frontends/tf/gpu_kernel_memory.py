"""What TensorFlow's GPU kernels allocate on the device beyond their outputs.

Bounds for TensorFlow 2.21 on CUDA. They hold what was measured on an H100 with the allocator that
counts what is asked for (TF_GPU_ALLOCATOR=cuda_malloc_async; tests/gpu/test_gpu_kernel_memory.py)
and the libraries of CUDA 13. cuBLAS, cuSOLVER and cuDNN choose their own workspaces, so there is
room for others' choices; products of half precision and gradients of depthwise convolutions are a
guess. cuBLAS takes its workspace outside of TensorFlow's allocator, once. Buffers are reused as on
a CPU (`kernel_memory.FORWARDS`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tf_exla.frontends.tf.kernel_call import (
    Bound,
    Call,
    TensorLike,
    copy_of_everything,
    copy_of_output,
    itemsize,
    nothing,
    tensor_bytes,
    transposed_reduction,
)
from tf_exla.frontends.tf.kernel_memory import ELEMENTWISE, NO_SCRATCH, scratch_bytes
from tf_exla.frontends.tf.rule_builders import words

_BLOCK = 256  # the allocator rounds up
_WORKSPACE = 32 << 20  # cuBLASLt's on this generation, for half precision


def gpu_scratch_bytes(
    op: str,
    inputs: Sequence[TensorLike],
    outputs: Sequence[TensorLike],
    attrs: Mapping[str, object],
) -> int:
    """Return an upper bound in bytes of what the GPU kernel of `op` allocates beside its outputs.

    An op without a bound here is taken to allocate what the CPU kernel does at most, and 256 bytes.
    Kernels that TensorFlow has for the host only count as well.
    """
    call = Call(inputs, outputs, attrs, 1)
    bound = _SCRATCH.get(op)
    if bound is None:
        return scratch_bytes(op, inputs, outputs, attrs, 1) + _BLOCK
    return bound(call) + _BLOCK


def _moved(call: Call) -> int:
    """Nothing but pointers to many operands, and indices that are copied from the host."""
    indices = sum(tensor_bytes(t) for t in call.inputs if t.dtype in ("int32", "int64"))
    return indices + 16 * len(call.inputs)


def _product(call: Call) -> int:
    """Nothing of TensorFlow's; one pointer for each matrix of a batch."""
    out = call.outputs[0]
    half = _WORKSPACE if itemsize(out.dtype) == 2 else 0
    return half + 64 * prod(out.shape[:-2])


def _matrices(call: Call) -> int:
    return prod(call.inputs[0].shape[:-2])


def _triangular_solve(call: Call) -> int:
    """The right-hand side is solved in the output's buffer; two pointers for each matrix."""
    return 64 * prod(call.outputs[0].shape[:-2])


def _cholesky(call: Call) -> int:
    """The factor is made in the output's buffer, in panels; older cuSOLVERs hold a panel."""
    n = call.inputs[0].shape[-1]
    return _matrices(call) * (1024 + min(n, 64) * n * itemsize(call.inputs[0].dtype))


def _lu(call: Call) -> int:
    """The factors, in a copy of the matrices; pivots and pointers."""
    n = call.inputs[0].shape[-1]
    return tensor_bytes(call.inputs[0]) + _matrices(call) * 32 * (n + 32) + 4096


def _matrix_solve(call: Call) -> int:
    return _lu(call) + copy_of_output(call)


def _self_adjoint_eig(call: Call) -> int:
    """cuSOLVER's divide and conquer; fitted."""
    n = call.inputs[0].shape[-1]
    size = itemsize(call.inputs[0].dtype)
    return _matrices(call) * (9 * n * n // 2 + 1024 * n) * size


def _svd(call: Call) -> int:
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


def _sums(call: Call) -> int:
    columns = prod(call.outputs[0].shape)
    return _TREE + (_SUMS * copy_of_output(call) if columns <= _COLUMNS else 0)


def _reduction(call: Call) -> int:
    return transposed_reduction(call) + _sums(call)


def _softmax(call: Call) -> int:
    """cuDNN's layout: a copy of the logits and one of the result."""
    return 2 * copy_of_output(call)


def _cross_entropy(call: Call) -> int:
    """The logits minus their maximum, and some numbers for each row."""
    return copy_of_output(call) + 4 * tensor_bytes(call.outputs[0])


_SORTED_COLUMNS = 1000
_SORTED_K = 100


def _top_k(call: Call) -> int:
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


def _convolution(call: Call) -> int:
    """Operands and results in the order of axes that cuDNN wants, and its workspace; fitted."""
    return copy_of_everything(call) * 5 // 4


_SCRATCH: dict[str, Bound] = {
    **dict.fromkeys([*ELEMENTWISE, *words("BiasAdd ClipByValue Cumprod Cumsum SelectV2")], nothing),
    **dict.fromkeys([*NO_SCRATCH, *words("BroadcastTo Tile")], _moved),
    **dict.fromkeys(words("BiasAddGrad L2Loss"), _sums),
    **dict.fromkeys(words("All Any Max Mean Min Prod Sum"), _reduction),
    **dict.fromkeys(words("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3"), _product),
    **dict.fromkeys(words("LogSoftmax Softmax"), _softmax),
    **dict.fromkeys(words("LogMatrixDeterminant Lu MatrixDeterminant MatrixInverse"), _lu),
    **dict.fromkeys(
        words("""
            Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2
            Conv3DBackpropInputV2
        """),
        _convolution,
    ),
    # In the order of axes that cuDNN wants; einsum: in the order that a product wants.
    **dict.fromkeys(
        words("""
            AvgPool AvgPoolGrad DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
            DepthwiseConv2dNativeBackpropInput Einsum FusedBatchNormV2 MaxPool MaxPoolGrad
        """),
        copy_of_everything,
    ),
    "ArgMax": _reduction,
    "ArgMin": _reduction,
    "Cholesky": _cholesky,
    "MatrixSolve": _matrix_solve,
    "MatrixTriangularSolve": _triangular_solve,
    "SelfAdjointEigV2": _self_adjoint_eig,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Svd": _svd,
    "TopKV2": _top_k,
}
