"""Which ops XLA compiles, and where its code for a CPU is slower than TensorFlow's own kernels.

Solves, decompositions and cumulative sums are not compiled: XLA's are slower, and work on copies.
Measured on 8 MB chunks with two cores: products run at the same speed, pointwise ops between 0.9
and 3 times as fast, and what `_slower` names down to a fifteenth.
"""

from __future__ import annotations

import math

from tf_exla.frontends.tf.compiled_forms import has_form
from tf_exla.frontends.tf.rule_builders import words
from tf_exla.graph import Node
from tf_exla.op_set import Compiles

# Ops that XLA compiles as well as TensorFlow runs them, or better, with the same zeros, infinities
# and NaNs. (Not: erf, and the gradients of relu, elu and selu; `compiled_forms.py` has more.)
WELL = frozenset(
    words("""
    Abs Add AddN AddV2 BatchMatMul BatchMatMulV2 BatchMatMulV3 BroadcastTo Cast Ceil ClipByValue
    ConcatV2 Cos Cosh Div DivNoNan Elu Equal Exp ExpandDims Expm1 Fill Floor FloorDiv FloorMod
    Greater GreaterEqual Identity Inv IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Less
    LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart Max
    Maximum Mean Min Minimum Mul MulNoNan Neg NotEqual OneHot OnesLike Pack Pad PadV2 Pow Prod
    RealDiv Reciprocal Relu Relu6 Relu6Grad Reshape Rsqrt Select SelectV2 Selu Sigmoid Sign Sin
    Sinh Slice Softmax Softplus SoftplusGrad Softsign SoftsignGrad Sqrt Square SquaredDifference
    Squeeze StopGradient StridedSlice Sub Sum Tanh TanhGrad Tile Transpose ZerosLike
""")
)

# Ops that XLA compiles, to code that is slower or not known to be faster.
POORLY = frozenset(
    words("""
    Acos Acosh Asin Asinh Atan Atan2 Atanh BiasAdd Conj ComplexAbs Complex Imag Mod PreventGradient
    Real ReverseV2 Rint Roll Round Snapshot Split SplitV Tan Unpack Xdivy Xlog1py Xlogy
""")
)

# XLA is built to lose NaNs in these; some have another form.
EXTREMES = frozenset(words("ClipByValue Max Maximum Min Minimum Relu6 Relu6Grad"))

# With integers TensorFlow raises an error for a division by zero, XLA does not.
CHECKED = frozenset(words("Div FloorDiv FloorMod Mod Pow RealDiv"))

# XLA adds float32 one by one, TensorFlow pairwise: for 200,000 numbers ten times the error.
LONGEST_SUM = 1 << 14
_SUMS = frozenset(words("Mean Prod Sum"))


def compiles(node: Node) -> Compiles:
    """Return how well XLA compiles a node; "" where it does not."""
    if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)) or node.stateful:
        return ""
    if any(tensor.dtype in _NOT_COMPILED for tensor in (*node.inputs, *node.outputs)):
        return ""
    real = [t.dtype.startswith(_REAL) for t in (node.inputs[:1] + node.outputs[:1])]
    if has_form(node):
        return "well"
    if node.op in EXTREMES and real[-1]:
        return ""
    if node.op in CHECKED and not real[-1]:
        return ""
    if node.op == "Cast" and real[0] and not real[-1]:
        return ""  # NaNs, and numbers out of range, become other integers
    if node.op in _SUMS and _reduced(node) > LONGEST_SUM and "64" not in node.outputs[0].dtype:
        return ""
    if node.op in POORLY:
        return "poorly"
    if node.op not in WELL:
        return ""
    return "poorly" if _slower(node) else "well"


_REAL = ("float", "bfloat", "half", "complex")

# float16 and bfloat16 are computed in float32 between roundings, which fusion leaves out.
_NOT_COMPILED = frozenset({"string", "resource", "variant"})
_ROUNDED = frozenset({"float16", "bfloat16", "half"})


def _slower(node: Node) -> bool:
    tensors = (*node.inputs, *node.outputs)
    if any(tensor.dtype in _ROUNDED or tensor.dtype.startswith("complex") for tensor in tensors):
        return True
    dtype = node.outputs[0].dtype
    if node.op.startswith("BatchMatMul"):
        return math.prod(node.output.dims[:-2]) > 1  # 0.6: one product after the other
    if node.op in ("Softmax", "LogSoftmax"):
        return True  # 0.7
    if node.op in ("Sin", "Cos"):
        return dtype == "float32"  # 0.2
    return False


def _reduced(node: Node) -> int:
    """Return how many numbers each result of a reduction is made of."""
    return node.inputs[0].size // max(node.outputs[0].size, 1)
