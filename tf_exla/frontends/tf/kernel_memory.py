"""What TensorFlow's CPU kernels allocate beyond their outputs, and which buffers they reuse.

Bounds on memory that becomes resident, for TensorFlow 2.21 without oneDNN's graph rewrites
(TF_ENABLE_ONEDNN_OPTS=0). Each was read from the kernel's source (TensorFlow's
core/kernels, Eigen's TensorContractionThreadPool.h, GeneralBlockPanelKernel.h,
TriangularSolverMatrix.h) and checked by measurement (tests/frontends/test_kernel_memory.py). A heap
tracer may show more: Eigen reserves packing buffers for products that it then never touches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isqrt, prod
from pathlib import Path

from tf_exla.frontends.tf.kernel_call import (
    Bound,
    Call,
    TensorLike,
    all_bytes,
    copy_of_everything,
    copy_of_output,
    itemsize,
    nothing,
    tensor_bytes,
    transposed_reduction,
)
from tf_exla.frontends.tf.rule_builders import words
from tf_exla.top_k import CHUNKED, by_groups, few_groups, running_size


def scratch_bytes(
    op: str,
    inputs: Sequence[TensorLike],
    outputs: Sequence[TensorLike],
    attrs: Mapping[str, object],
    threads: int,
    compiled: bool = False,
) -> int:
    """Return an upper bound in bytes of what the CPU kernel of `op` allocates beside its outputs.

    `attrs` are plain values named as in the NodeDef (absent ones have TensorFlow's default),
    `threads` is the number of intra-op threads; `compiled`: of what XLA's code calls for `op`. An
    op that is not in the table is taken to copy all its inputs and outputs once.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    call = Call(inputs, outputs, attrs, threads)
    bound = _SCRATCH.get(op, copy_of_everything)(call)
    return max(bound, _COMPILED[op](call)) if compiled and op in _COMPILED else bound


# Caches decide Eigen's block sizes. Where the system does not tell, assume large ones.


def _cache_bytes(level: int, default: int) -> int:
    """Size of a core's data cache as Linux tells it."""
    for cache in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if int((cache / "level").read_text()) != level:
                continue
            if (cache / "type").read_text().strip() != "Instruction":
                return int((cache / "size").read_text().strip().removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    return default


_LEAST_L1 = 2**15
_L1 = max(_LEAST_L1, _cache_bytes(1, 2**17))
_L2 = max(2**18, _cache_bytes(2, 2**22))
# Virtual machines report a part of it where Eigen reads the whole.
_L3 = 2**29

# Eigen: the depth of a packed block in a threaded product, two of which are in use at once.
_BLOCK_DEPTH = 320
# Coefficients times depth of the largest task that Eigen makes by merging blocks: two units of
# 40,000 cycles at an eighth of a cycle, and as much again for safety.
_TASK_WORK = 1_280_000
# LaunchBatchMatMul: a smaller product is not worth several threads.
_SMALL_PRODUCT = 128 * 128
# Eigen evaluates broadcasts in blocks that fit a core's cache: measured 120 kB for each thread, and
# twice for the conditional.
_BROADCAST_BLOCK = 2**18


def _broadcast_blocks(call: Call) -> int:
    return min(call.threads * _BROADCAST_BLOCK, 2 * all_bytes(call.outputs))


# Products.


def _matmul(call: Call) -> int:
    return _product(call, *(bool(call.attrs.get(f"transpose_{side}", False)) for side in "ab"))


def _batch_matmul(call: Call) -> int:
    return _product(call, *(bool(call.attrs.get(f"adj_{side}", False)) for side in "xy"))


def _product(call: Call, transpose_left: bool, transpose_right: bool) -> int:
    """Follow LaunchBatchMatMul's choice of kernel."""
    left, _, out = call.inputs[0], call.inputs[1], call.outputs[0]
    size, batch = itemsize(out.dtype), prod(out.shape[:-2])
    rows, cols = out.shape[-2:]
    inner = left.shape[-2] if transpose_left else left.shape[-1]
    work = rows * inner * cols
    # Half precision is multiplied in float32.
    widened = 2 * copy_of_everything(call) if size == 2 else 0
    size = max(size, 4)
    if min(rows, inner, cols) > 1 and (batch == 1 or work > _SMALL_PRODUCT):
        return widened + _contraction(rows, inner, cols, size, call.threads)
    vectors = call.threads * 2 * (rows + inner + cols) * size
    if batch > 1:
        small = call.threads * inner * (rows + cols) * size
        return widened + (vectors if min(rows, inner, cols) <= 1 else small)
    # A single product without transposes is evaluated into temporary blocks, then copied.
    temporary = 0 if transpose_left or transpose_right else tensor_bytes(out)
    return widened + vectors + temporary


def _compiled_products(call: Call) -> int:
    """XLA's code begins the products of a batch all at once, each with its packed operands.

    (xla/backends/cpu/runtime/dot_thunk.cc.) It repeats an operand that has no batch.
    """
    *batch, rows, cols = call.outputs[0].shape
    count = prod(batch)
    inner = call.inputs[0].shape[-2 if call.attrs.get("adj_x", False) else -1]
    size = max(4, itemsize(call.outputs[0].dtype))
    repeated = (
        count * tensor_bytes(one) // max(1, prod(one.shape[:-2]))
        for one in call.inputs
        if prod(one.shape[:-2]) < count
    )
    return count * _contraction(rows, inner, cols, size, call.threads) + sum(repeated)


def _contraction(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Bound the packed operands of Eigen's TensorContraction on a thread pool.

    Eigen packs slices of both operands, 320 deep, two at a time. The axis along which it shards is
    packed for each task in a small buffer of the thread where there are enough tasks; only tasks
    that a thread could not finish before the next slice began go to the large buffer.
    """
    if threads == 1:
        # The sequential product packs the columns whole, as deep as the L1 cache allows.
        depth = min(inner, _L1 // (12 * size))
        return depth * cols * size + min(depth * rows * size, 2**20)
    depth = min(inner, 2 * _BLOCK_DEPTH)
    packed = max(
        _sharded_axis(sharded, other, is_m, inner, size, threads) + depth * other * size
        for sharded, other, is_m in _shardings(rows, cols, threads)
    )
    return max(packed, _sharded_by_inner(rows, inner, cols, size, threads))


def _shardings(rows: int, cols: int, threads: int) -> set[tuple[int, int, bool]]:
    """(sharded axis, other axis, whether m is sharded), for each size of Eigen's registers.

    As its shardByCol chooses. Eigen sees the row-major product transposed: its m are our columns,
    its n our rows.
    """
    m, n = cols, rows
    found = set()
    for nr in (4, 8):
        few_columns = n // threads < nr or (
            n // threads < 4 * nr
            and n % (threads * nr) != 0
            and (m % (threads * nr) == 0 or m // n >= 6)
        )
        by_row = m // threads >= nr and few_columns
        by_row = by_row or (n // threads < 16 * nr and m > n * 32)
        found.add((m, n, True) if by_row else (n, m, False))
    return found


def _sharded_axis(sharded: int, other: int, is_m: bool, inner: int, size: int, threads: int) -> int:
    depth = min(inner, _BLOCK_DEPTH)
    whole = min(inner, 2 * _BLOCK_DEPTH) * sharded * size
    block = _L2 // (4 * size * depth)
    if size == 4:  # goes to oneDNN's kernel, with blocks half as long again along m, rounded up
        block = block * 3 // 2 + 48 if is_m else block + 24
    task = max(block, _TASK_WORK // (max(1, other // threads) * depth))
    tasks = ceil(sharded / task)
    # Eigen's oversharding factor: from how many tasks on it shards along this axis only.
    bounds = ((4, 8.0), (8, 4.0), (16, 2.0), (32, 1.0), (64, 0.8))
    factor = next((factor for bound, factor in bounds if threads <= bound), 0.6)
    if tasks < factor * threads:
        return whole
    late = min(1.0, (ceil(inner / depth) - 1) * threads / tasks)
    return min(whole, ceil(late * whole) + threads * task * depth * size)


def _sharded_by_inner(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Each worker sums its share of the inner axis into a buffer of the size of the output.

    Only where the output is thin or too small to occupy all threads, and where all buffers fit in
    the L3 cache; the best number of workers is about the square root of the inner extent.
    """
    workers = min(threads, inner // 8, 2 * isqrt(inner) + 2)
    thin = min(rows, cols) < 16 or max(rows, cols) < 8 * threads
    # 100,000 cycles for each thread; an eighth of a cycle for each coefficient and step in depth.
    busy = rows * cols * min(inner, _BLOCK_DEPTH) > 1_000_000 * threads
    if workers < 2 or (busy and not thin) or 2 * rows * cols * size > _L3:
        return 0
    depth = min(ceil(inner / workers), _L1 // (12 * size))
    return min(workers * rows * cols * size, _L3) + workers * depth * (rows + cols) * size


def _convolution(call: Call) -> int:
    """A product of image patches with the filter; the patches are packed, never stored whole."""
    kernel, out = call.inputs[1], call.outputs[0]
    channels = kernel.shape[-1]
    patches, inner = prod(out.shape) // max(1, channels), prod(kernel.shape[:-1])
    return _contraction(patches, inner, channels, itemsize(out.dtype), call.threads)


# Both gradients lay out the patches of so many images, and no more than there are.
_PATCHES = 30 << 20


def _conv2d_grad(image_at: int, filter_at: int) -> Bound:
    """Store the patches of as many images as fit a cache (of one at least), and multiply them."""

    def bound(call: Call) -> int:
        tensors = {k: tensor.shape for k, tensor in enumerate(call.inputs)}
        tensors[image_at if image_at < 0 else filter_at] = call.outputs[0].shape
        (images, *_), kernel, made = tensors[image_at], tensors[filter_at], call.inputs[2].shape
        patch, channels = prod(kernel[:-1]), kernel[-1]
        pixels = prod(made[1:]) // max(1, channels)
        size = itemsize(call.outputs[0].dtype)
        each = (pixels * (patch + channels) + patch * channels) * size
        together = min(images, ceil(_PATCHES / max(1, each)))
        product = (patch, together * pixels, channels)  # for the filter; for images:
        if image_at < 0:
            product = (together * pixels, channels, patch)
        packed = _contraction(*product, size, call.threads)
        return together * pixels * patch * size + packed

    return bound


def _conv3d_grad(filter_at: int) -> Bound:
    """Pack the patches of all images, where it is not done in slices."""

    def bound(call: Call) -> int:
        kernel = (call.outputs[0] if filter_at < 0 else call.inputs[filter_at]).shape
        patches = tensor_bytes(call.inputs[2]) // max(1, kernel[-1]) * prod(kernel[:-1])
        return patches + copy_of_everything(call)

    return bound


def _einsum(call: Call) -> int:
    """Transposed operands and a transposed result beside the product's own packing."""
    depth = 2 * _BLOCK_DEPTH
    packed = sum(tensor_bytes(t) // max(1, prod(t.shape)) * depth * max(t.shape, default=1)
                 for t in call.inputs)  # fmt: skip
    return copy_of_everything(call) + min(packed, all_bytes(call.inputs))


# Linear algebra. Matrices of a batch are done side by side, at most one for each thread.


def _side_by_side(call: Call) -> int:
    return min(call.threads, prod(call.inputs[0].shape[:-2]))


def _solve_depth(size: int, cache: int = _L1) -> int:
    """Depth of the panels of Eigen's triangular solver: those of a register block fit in L1."""
    return max(8, (cache - 2**9) // (40 * size))


def _triangular_solve(call: Call) -> int:
    out = call.outputs[0]
    n, columns = out.shape[-2:]
    size = itemsize(out.dtype)
    panels = min(n, _solve_depth(size)) * (n + columns) * size
    # A matrix that surely is not cut in depth is cut in columns instead.
    if n < _solve_depth(size, _LEAST_L1) * 3 // 4:
        panels = min(panels, 2**20)
    return min(call.threads, prod(out.shape[:-2])) * panels


def _cholesky(call: Call) -> int:
    """Eigen factorizes a copy of the matrix in column-major order, in blocks of at most 128."""
    n, size = call.inputs[0].shape[-1], itemsize(call.inputs[0].dtype)
    return _side_by_side(call) * (n + 2 * min(n, max(128, _solve_depth(size)))) * n * size


def _square_matrices(copies: float) -> Bound:
    """As many copies of a matrix, and some vectors."""

    def bound(call: Call) -> int:
        n, size = call.inputs[0].shape[-1], itemsize(call.inputs[0].dtype)
        return _side_by_side(call) * ceil((copies * n + 32) * n * size)

    return bound


def _matrix_solve(call: Call) -> int:
    """The factors and their copies, then a copy of the right-hand side."""
    n, columns = call.outputs[0].shape[-2:]
    size = itemsize(call.outputs[0].dtype)
    panels = min(n, _solve_depth(size)) * (n + columns)
    return _side_by_side(call) * (n * (2 * n + max(n, columns) + 32) + panels) * size


def _qr(call: Call) -> int:
    m, n = call.inputs[0].shape[-2:]
    copies = 2.5 if call.attrs.get("full_matrices", False) else 4
    return _side_by_side(call) * ceil(copies * (m + 32) * (n + 32)) * itemsize(call.inputs[0].dtype)


def _svd(call: Call) -> int:
    """Divide and conquer: copies of the matrix and of the smaller square; fitted."""
    short, long = sorted(call.inputs[0].shape[-2:])
    vectors = call.attrs.get("compute_uv", True)
    full = vectors and call.attrs.get("full_matrices", False)
    elements = (4 if vectors else 3) * short * long + (11 if vectors else 6) * short * short
    elements += long * long if full else 0
    return _side_by_side(call) * (elements + 64 * long) * itemsize(call.inputs[0].dtype)


# The rest.


def _softmax(call: Call) -> int:
    """The maximum or the sum of each row."""
    out = call.outputs[0]
    return tensor_bytes(out) // max(1, out.shape[-1]) + _broadcast_blocks(call)


def _histogram(call: Call) -> int:
    """The bin of each value, and as much to compute it, whatever the dtype."""
    return 8 * prod(call.inputs[0].shape) + all_bytes(call.outputs)


def _rows_of_segments(call: Call) -> int:
    """The number of rows of each segment, as its ids are kept."""
    ids = call.inputs[1]
    kept = len(call.inputs[0].shape) - len(ids.shape)
    out = call.outputs[0].shape
    return itemsize(ids.dtype) * prod(out[: len(out) - kept])


def _top_k(call: Call) -> int:
    """A heap of indices for each row under way."""
    values = call.outputs[0]
    rows = min(call.threads, prod(values.shape[:-1]))
    heaps = rows * 8 * (values.shape[-1] + 1)
    return heaps + (_blocked_rows(call) if CHUNKED in call.attrs else 0)


def _blocked_rows(call: Call) -> int:
    """Which rows have a NaN in the way; of one such row a copy, its mask, and as it is ranked."""
    values = call.outputs[0]
    row = call.inputs[0].shape[-1] * (2 * itemsize(values.dtype) + 1)
    found = prod(values.shape) + 16 * prod(values.shape[:-1])
    return row + found + 2 * all_bytes(call.outputs)


def _running_top_k(call: Call) -> int:
    """The groups' maxima, how they compare; then those that beat the k-th, or all top k."""
    x, values, places = call.inputs
    *batch, n = x.shape
    rows, k, size = prod(batch), values.shape[-1], running_size(n)
    best = tensor_bytes(values) + tensor_bytes(places) + 4 * prod(values.shape)
    every = 4 * best + _top_k(call) + _blocked_rows(call)
    if not size:
        return every
    groups = rows * ceil(n / size)
    padded = groups * size * itemsize(x.dtype) if n % size else 0
    looked = few_groups(rows, n, k)
    # As elements thrice, one after the other; each with its row, its group, its place.
    closer = 3 * looked * size * itemsize(x.dtype) + 64 * looked + 8 * best
    if by_groups(n, k):  # as elements twice
        closer = max(closer, 2 * size * tensor_bytes(values) + 8 * best)
    compared = groups * (itemsize(x.dtype) + 6) + 32 * rows
    return padded + compared + max(every, closer) + _RUNNING_NODES


_RUNNING_NODES = 1 << 14  # what the executor keeps for a hundred nodes


_POINTWISE = words("""
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Ceil Cos Cosh Digamma Elu Erf Erfc
    Erfinv Exp Expm1 Floor Inv LeakyRelu Lgamma Log Log1p LogicalNot Ndtri Neg Reciprocal Relu Relu6
    Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square Tan Tanh
""")

# Of two operands of one shape, never broadcast.
_PAIRWISE = words("""
    EluGrad InvGrad ReciprocalGrad ReluGrad RsqrtGrad SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad
    TanhGrad
""")

_BINARY = words("""
    Add AddV2 Atan2 Div DivNoNan FloorDiv FloorMod Igamma LogicalAnd LogicalOr Maximum Minimum Mod
    Mul MulNoNan NextAfter Pow RealDiv SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlogy
    Zeta
""")

_COMPARISONS = words("Equal Greater GreaterEqual Less LessEqual NotEqual")

ELEMENTWISE = (*_POINTWISE, *_PAIRWISE, *_BINARY, *_COMPARISONS)


def _random_rows(call: Call) -> int:
    """Rows that begin inside of what one counter gives are cut out of a few numbers more."""
    each, size = prod(call.outputs[0].shape[1:]), itemsize(call.outputs[0].dtype)
    group = 2 if size == 8 else 4
    return all_bytes(call.outputs) + group * size if each % group else 0


def _scatter_rows(columns_at: int) -> Bound:
    """The numbers of rows, spread and packed with the columns; an update copies what it writes to.

    What is emitted are several ops (frontends/tf/scattering.py).
    """

    def bound(call: Call) -> int:
        columns = call.inputs[columns_at]
        numbers = prod(columns.shape[:-1]) * itemsize(columns.dtype)
        copied = tensor_bytes(call.outputs[0]) if columns_at else 0
        blocks = min(call.threads * _BROADCAST_BLOCK, 2 * tensor_bytes(columns))
        return 3 * tensor_bytes(columns) + numbers + blocks + copied

    return bound


NO_SCRATCH = words("""
    AddN Angle ArgMax ArgMin AvgPool AvgPoolGrad Bitcast Cast CheckNumerics ComplexAbs ConcatV2
    Conj Const CropAndResize DeepCopy DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput Diag
    DiagPart Empty EnsureShape ExpandDims ExtractImagePatches Fill FusedBatchNormV2 GatherNd
    GatherV2 Identity IdentityN Imag InvertPermutation IsFinite IsInf IsNan L2Loss LRNGrad LinSpace
    LowerBound MatrixBandPart MatrixDiagPartV3 MatrixDiagV3 MatrixSetDiagV3 MaxPool MirrorPad NoOp
    NthElement OneHot OnesLike Pack Pad PadV2 PreventGradient Range Rank ReadVariableOp Real
    Reshape ResizeBicubic ResizeBilinear ReverseV2 Roll ScatterNd Select Shape Size Slice Snapshot
    SpaceToBatchND SparseSoftmaxCrossEntropyWithLogits Split SplitV Squeeze StopGradient
    StridedSlice StridedSliceGrad TensorScatterAdd TensorScatterUpdate TensorStridedSliceUpdate
    Transpose TridiagonalSolve Unpack UpperBound ZerosLike
""")

_SCRATCH: dict[str, Bound] = {
    **dict.fromkeys(NO_SCRATCH + _PAIRWISE + _POINTWISE, nothing),
    **dict.fromkeys(_BINARY + _COMPARISONS, _broadcast_blocks),
    "All": transposed_reduction,
    "Any": transposed_reduction,
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "Betainc": _broadcast_blocks,
    "BiasAdd": _broadcast_blocks,
    "BiasAddGrad": _broadcast_blocks,
    "BroadcastTo": _broadcast_blocks,
    "Cholesky": _cholesky,
    "CholeskyGrad": _square_matrices(4),
    "ClipByValue": _broadcast_blocks,
    "Complex": _broadcast_blocks,
    "Conv2D": _convolution,
    "Conv2DBackpropFilter": _conv2d_grad(0, -1),
    "Conv2DBackpropInput": _conv2d_grad(-1, 1),
    "Conv3D": _convolution,
    "Conv3DBackpropFilterV2": _conv3d_grad(-1),
    "Conv3DBackpropInputV2": _conv3d_grad(1),
    "Cross": _broadcast_blocks,
    "CumulativeLogsumexp": copy_of_output,
    "Cumprod": copy_of_output,
    "Cumsum": copy_of_output,
    "Eig": _square_matrices(8),
    "Einsum": _einsum,
    "HistogramFixedWidth": _histogram,
    "Igammac": _broadcast_blocks,
    "LogMatrixDeterminant": _square_matrices(3),
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "MatrixDeterminant": _square_matrices(3),
    "MatrixInverse": _square_matrices(3),
    "MatrixLogarithm": _square_matrices(10),
    "MatrixSolve": _matrix_solve,
    "MatrixSquareRoot": _square_matrices(8),
    "MatrixTriangularSolve": _triangular_solve,
    "Max": transposed_reduction,
    "Mean": transposed_reduction,
    "Min": transposed_reduction,
    "Polygamma": _broadcast_blocks,
    "Prod": transposed_reduction,
    "Qr": _qr,
    "RandomRows": _random_rows,
    "RunningTopK": _running_top_k,
    "ScatterRows": _scatter_rows(0),
    "SelectV2": _broadcast_blocks,
    "SelfAdjointEigV2": _square_matrices(1.2),
    "Softmax": _softmax,
    "SoftmaxCrossEntropyWithLogits": copy_of_output,
    "Sum": transposed_reduction,
    "Svd": _svd,
    "Tile": _broadcast_blocks,
    "TopKV2": _top_k,
    "UpdateRows": _scatter_rows(1),
    **dict.fromkeys(
        words("UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum"),
        _rows_of_segments,
    ),
    "Xlog1py": _broadcast_blocks,
}

_COMPILED: Mapping[str, Bound] = dict.fromkeys(
    words("BatchMatMul BatchMatMulV2 BatchMatMulV3"), _compiled_products
)

# The output is the buffer of input 0, always (IdentityN: output i that of input i; ReadVariableOp:
# the variable's). Snapshot and DeepCopy copy.
ALIASES: frozenset[str] = frozenset(
    words("""
    Bitcast CheckNumerics EnsureShape ExpandDims Identity IdentityN PreventGradient ReadVariableOp
    Reshape Squeeze StopGradient
    """)
)

# The output may be (part of) the buffer of input 0 and then keeps all of it alive, or a new one:
# a slice of whole rows that is aligned to 64 bytes, an operation that turns out to change nothing.
# A projection must count both the new buffer and the input's longer life. (SplitV, Split: the value
# is input 0 or 1.)
MAY_ALIAS: frozenset[str] = frozenset(
    words("""
    All Any BroadcastTo Cast ConcatV2 Max Mean Min Pack Pad PadV2 Prod ReverseV2 Slice Split SplitV
    StridedSlice Sum Tile Transpose Unpack
    """)
)

# Inputs whose buffer the kernel is certain to reuse for its output, when that input has the
# output's size and dtype and this is its last use. Never so for a buffer that someone else holds
# (arguments, captured tensors, variables, constants, loop-invariant inputs of a loop body), nor for
# a tensor that the same node takes twice (x * x).
FORWARDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(_POINTWISE, (0,)),
    **dict.fromkeys(_BINARY + _PAIRWISE, (0, 1)),
    "AddN": tuple(range(64)),
    "BiasAdd": (0,),
    "ClipByValue": (0,),
    "LogSoftmax": (0,),
    "MatrixBandPart": (0,),
    "MatrixSetDiagV3": (0,),
    "Select": (1, 2),
    "SelectV2": (1, 2),
    "Snapshot": (0,),
    "Softmax": (0,),
    "TensorStridedSliceUpdate": (0,),
}
