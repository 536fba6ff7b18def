"""Floating-point operations of TensorFlow's ops, roughly: enough to compare plans.

An addition, a multiplication or a comparison is one; matrix decompositions as in Golub and Van
Loan, "Matrix Computations" (2013). Moving elements costs none: bytes are counted elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tf_exla.frontends.tf.rule_builders import words
from tf_exla.graph import Node, Tensor


def _each(weight: int, ops: str) -> Mapping[str, int]:
    return dict.fromkeys(words(ops), weight)


# Operations per element of the result, of ops that compute more than one.
WEIGHTS: Mapping[str, int] = {
    **_each(4, "Div RealDiv DivNoNan Sqrt Rsqrt Reciprocal Inv SqrtGrad RsqrtGrad"),
    **_each(4, "FloorDiv FloorMod Mod TruncateMod TruncateDiv"),
    **_each(3, "SquaredDifference SigmoidGrad TanhGrad SoftplusGrad EluGrad"),
    **_each(12, "Exp Expm1 Log Log1p Sigmoid Tanh Elu Selu Softplus Xlogy Xlog1py"),
    **_each(16, "Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Atan2"),
    **_each(16, "Erf Erfc Softmax LogSoftmax ComplexAbs Angle"),
    **_each(40, "Pow Erfinv Ndtri Lgamma Digamma"),
    **_each(200, "Igamma Igammac IgammaGradA Betainc Zeta Polygamma"),
    **_each(20, "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"),
}

# Ops that compute nothing.
FREE = frozenset(
    words("""
    BroadcastTo Concat ConcatV2 Const Diag DiagPart EnsureShape ExpandDims Fill Gather GatherNd
    GatherV2 Identity IdentityN LinSpace MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
    MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
    MirrorPad NoOp OneHot OnesLike Pack Pad PadV2 Placeholder PlaceholderWithDefault
    PreventGradient Range Rank ReadVariableOp Reshape ResourceGather Reverse ReverseSequence
    ReverseV2 Roll Shape ShapeN Size Slice Snapshot Split SplitV Squeeze StopGradient StridedSlice
    StridedSliceGrad TensorScatterUpdate TensorStridedSliceUpdate Tile Transpose Unpack VarHandleOp
    ZerosLike
""")
)

# Ops whose work is one operation for each element of the first operand.
PER_OPERAND = frozenset(
    words("""
    All Any ArgMax ArgMin BiasAddGrad Cumprod Cumsum EuclideanNorm L2Loss Max Mean Min Prod Sum
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum AvgPool MaxPool
""")
)


# Ops whose kernel runs on one core.
SERIAL = frozenset(words("Cumprod Cumsum MatrixTriangularSolve TopKV2"))


def flops(node: Node) -> int:
    """Return the floating-point operations of a node; complex numbers count fourfold."""
    if node.op in FREE or not all(tensor.is_static for tensor in node.outputs):
        return 0
    if node.op in PRODUCTS:
        count = PRODUCTS[node.op](node)
    elif node.op in PER_OPERAND:
        count = node.inputs[0].size
    elif node.op == "AddN":
        count = node.output.size * (len(node.inputs) - 1)
    else:
        count = WEIGHTS.get(node.op, 1) * max((t.size for t in node.outputs), default=0)
    is_complex = any(tensor.dtype.startswith("complex") for tensor in node.outputs)
    return 4 * count if is_complex else count


def _matmul(node: Node) -> int:
    transposed = node.attrs.get("transpose_a") or node.attrs.get("adj_x")
    shape = _shape(node.inputs[0])
    inner = shape[-2 if transposed else -1] if len(shape) > 1 else 1
    return 2 * node.output.size * inner


def _einsum(node: Node) -> int:
    left = str(node.attrs.get("equation", "")).replace(" ", "").partition("->")[0]
    sizes: dict[str, int] = {}
    rest = 1
    for term, tensor in zip(left.split(","), node.inputs, strict=False):
        shape = _shape(tensor)
        before, dots, after = term.partition("...")
        named = [*zip(before, shape, strict=False)]
        named += zip(after, shape[len(shape) - len(after) :], strict=True)
        sizes.update(named)
        if dots:
            rest = max(rest, math.prod(shape[len(before) : len(shape) - len(after)]))
    return len(node.inputs) * rest * math.prod(sizes.values())


def _shape(tensor: Tensor) -> Sequence[int]:
    return tensor.dims if tensor.is_static else (0, 0)


def _cubic(factor: float) -> Callable[[Node], int]:
    """`factor` times rows, columns and the smaller of them, for each matrix of the batch."""

    def count(node: Node) -> int:
        *batch, rows, columns = _shape(node.inputs[0])
        return int(factor * math.prod(batch) * rows * columns * min(rows, columns))

    return count


def _solve(factorize: float) -> Callable[[Node], int]:
    """Two triangular solves of all right-hand sides, or one where nothing is factorized."""

    def count(node: Node) -> int:
        rows = _shape(node.inputs[0])[-1]
        solves = node.output.size * rows * (2 if factorize else 1)
        return solves + _cubic(factorize)(node)

    return count


def _convolution(filter_at: int, result_at: int) -> Callable[[Node], int]:
    def count(node: Node) -> int:
        tensors = (*node.inputs, node.output)
        kernel, result = _shape(tensors[filter_at]), tensors[result_at]
        return 2 * result.size * math.prod(kernel[:-1])

    return count


PRODUCTS: Mapping[str, Callable[[Node], int]] = {
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "BatchMatMulV3": _matmul,
    "Cholesky": _cubic(1 / 3),
    "CholeskyGrad": _cubic(2),
    "Conv2D": _convolution(1, -1),
    "Conv2DBackpropFilter": _convolution(-1, 2),
    "Conv2DBackpropInput": _convolution(1, 2),
    "Conv3D": _convolution(1, -1),
    "Conv3DBackpropFilterV2": _convolution(-1, 2),
    "Conv3DBackpropInputV2": _convolution(1, 2),
    "Eig": _cubic(25),
    "Einsum": _einsum,
    "LogMatrixDeterminant": _cubic(2 / 3),
    "Lu": _cubic(2 / 3),
    "MatMul": _matmul,
    "MatrixDeterminant": _cubic(2 / 3),
    "MatrixInverse": _cubic(2),
    "MatrixSolve": _solve(2 / 3),
    "MatrixSolveLs": _solve(2),
    "MatrixTriangularSolve": _solve(0),
    "Qr": _cubic(4),
    "SelfAdjointEigV2": _cubic(9),
    "Svd": _cubic(20),
}
