"""Which ops XLA compiles, and where its code for a CPU is slower than TensorFlow's own kernels.

Measured on 8 MB chunks with two cores: products run at the same speed, pointwise ops between 0.9
and 3 times as fast, and what is named in `SLOWER` down to a fifteenth.
"""

from __future__ import annotations

from tf_exla.frontends.tf.rule_builders import words
from tf_exla.graph import Node
from tf_exla.op_set import Compiles

# Ops that XLA compiles as well as TensorFlow runs them, or better.
WELL = frozenset(
    words("""
    Abs Add AddN AddV2 BatchMatMul BatchMatMulV2 BatchMatMulV3 BroadcastTo Cast Ceil ClipByValue
    ConcatV2 Cosh Div DivNoNan Elu EluGrad Equal Erf Erfc Exp ExpandDims Expm1 Fill Floor FloorDiv
    FloorMod Greater GreaterEqual Identity Inv InvGrad IsFinite IsInf IsNan LeakyRelu LeakyReluGrad
    Less LessEqual Log Log1p LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart Max Maximum Mean
    Min Minimum Mul MulNoNan Neg NotEqual OneHot OnesLike Pack Pad PadV2 Pow Prod RealDiv Reciprocal
    ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Reshape Rsqrt RsqrtGrad Select SelectV2 Selu
    SeluGrad Sigmoid SigmoidGrad Sign Sinh Slice Softmax LogSoftmax Softplus SoftplusGrad Softsign
    SoftsignGrad Sqrt SqrtGrad Square SquaredDifference Squeeze StopGradient StridedSlice Sub Sum
    Tanh TanhGrad Tile Transpose ZerosLike Sin Cos
""")
)

# Ops that XLA compiles, to code that is slower or not known to be faster.
POORLY = frozenset(
    words("""
    Acos Acosh All Any ArgMax ArgMin Asin Asinh Atan Atan2 Atanh BiasAdd BiasAddGrad Cholesky Conj
    ComplexAbs Complex Cumprod Cumsum Einsum Imag L2Loss MatrixDiag MatrixDiagPart
    MatrixDiagPartV3 MatrixDiagV3 MatrixSetDiagV3 MatrixTriangularSolve Mod PreventGradient Real
    ReverseV2 Rint Roll Round Snapshot Split SplitV Tan Unpack Xdivy Xlog1py Xlogy
""")
)

_REDUCTIONS = frozenset(words("Max Mean Min Prod Sum"))


def compiles(node: Node) -> Compiles:
    """Return how well XLA compiles a node; "" where it does not."""
    if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)) or node.stateful:
        return ""
    if any(tensor.dtype in _NOT_COMPILED for tensor in (*node.inputs, *node.outputs)):
        return ""
    if node.op in POORLY:
        return "poorly"
    if node.op not in WELL:
        return ""
    return "poorly" if _slower(node) else "well"


# float16 and bfloat16 are computed in float32 between roundings, which fusion leaves out.
_NOT_COMPILED = frozenset({"string", "resource", "variant"})
_ROUNDED = frozenset({"float16", "bfloat16", "half"})


def _slower(node: Node) -> bool:
    tensors = (*node.inputs, *node.outputs)
    if any(tensor.dtype in _ROUNDED or tensor.dtype.startswith("complex") for tensor in tensors):
        return True
    dtype = node.outputs[0].dtype
    if node.op in ("Sin", "Cos"):
        return dtype == "float32"  # 0.2
    if node.op in ("Erf", "Erfc"):
        return dtype == "float64"  # 0.4
    if node.op in _REDUCTIONS and dtype == "float64":
        return not _reduces_last(node)  # 0.07
    return False


def _reduces_last(node: Node) -> bool:
    axes = node.inputs[1].value
    rank = len(node.inputs[0].dims)
    return axes is not None and any(int(axis) % rank == rank - 1 for axis in axes.reshape(-1))
