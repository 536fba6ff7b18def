"""The table: for every TensorFlow op, how its operands' axes become axes of its results.

The notation is described in `tf_exla.axis_rule`. An op that is not here is never split. To add one,
add a line, and a case to `tests/frontends/op_cases.py`: one test runs all ops whole and in parts.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.rule_builders import (
    Rule,
    along,
    counts,
    each_to_its_own,
    histogram,
    made_whole,
    pointwise,
    pointwise_list,
    reduction,
    same,
    sum_all,
    whole,
    words,
)
from tf_exla.frontends.tf.rule_indexing import (
    gather,
    gather_nd,
    one_hot,
    resource_gather,
    reverse_sequence,
    scatter_nd,
    segments,
    tensor_scatter,
)
from tf_exla.frontends.tf.rule_movement import (
    bitcast,
    concat,
    diagonal,
    fill,
    pack,
    reshape,
    resized_axes,
    reverse_flags,
    same_axes,
    split,
    strided_slice,
    strided_slice_grad,
    strided_slice_update,
    tile,
    transpose,
    unpack,
)
from tf_exla.frontends.tf.rule_products import (
    bias,
    bias_grad,
    convolution,
    einsum,
    matmul,
    outputs_or_empty,
    pooling,
    select,
    sparse_matmul,
)

POINTWISE: Mapping[str, Rule] = {
    **pointwise(1, """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0
        BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Bucketize Cast Ceil
        CheckNumerics CheckNumericsV2 ComplexAbs Conj Cos Cosh Dawsn DebugGradientIdentity
        Digamma Elu EnsureShape Erf Erfc Erfinv Exp Expint Expm1 Floor
        FresnelCos FresnelSin Identity Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log
        Log1p LogicalNot Ndtri Neg OnesLike PlaceholderWithDefault PopulationCount PreventGradient
        Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softplus
        Softsign Spence Sqrt Square StopGradient Tan Tanh ZerosLike"""),
    **pointwise(2, """
        Add AddV2 ApproximateEqual Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan
        EluGrad Equal FloorDiv FloorMod Greater GreaterEqual Igamma IgammaGradA Igammac InvGrad
        LeakyReluGrad LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul
        MulNoNan NextAfter NotEqual Polygamma Pow RandomGammaGrad RealDiv ReciprocalGrad Relu6Grad
        ReluGrad RightShift RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad
        SquaredDifference Sub TanhGrad TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta"""),
    **pointwise(3, "Betainc ClipByValue SelectV2"),
    "AddN": pointwise_list,
    "BiasAdd": bias,
    "BiasAddV1": bias,
    "Bitcast": bitcast,
    "IdentityN": each_to_its_own,
    "Select": select,
}  # fmt: skip

REDUCTIONS: Mapping[str, Rule] = {
    "All": reduction("and"),
    "Any": reduction("or"),
    "ArgMax": along(1, keeps=False),
    "ArgMin": along(1, keeps=False),
    "BiasAddGrad": bias_grad,
    "Bincount": counts(weights_at=2),
    "CumulativeLogsumexp": along(1, keeps=True),
    "Cumprod": along(1, keeps=True),
    "Cumsum": along(1, keeps=True),
    "DenseBincount": counts(weights_at=2),
    "EuclideanNorm": reduction(None),
    "HistogramFixedWidth": histogram,
    "InTopKV2": "a B, a, _ -> a",
    "L2Loss": sum_all,
    "LogSoftmax": "... A -> ... A",
    "LowerBound": "a b, a c -> a c ; add b",
    "Max": reduction("max"),
    "MaxWithPosition": reduction("argmax"),
    "Mean": reduction(None),
    "Min": reduction("min"),
    "MinWithPosition": reduction("argmin"),
    "NthElement": "... A, _ -> ...",
    "Prod": reduction("mul"),
    "Softmax": "... A -> ... A",
    "SoftmaxCrossEntropyWithLogits": "a B, a B -> a, a B",
    "SparseSoftmaxCrossEntropyWithLogits": "a B, a -> a, a B",
    "Sum": reduction("add"),
    "TopKV2": "... a, _ -> ... B, ... B ; top_k a",
    "UpperBound": "a b, a c -> a c ; add b",
}

ALGEBRA: Mapping[str, Rule] = {
    "BandedTriangularSolve": "... K M, ... M n -> ... M n",
    "BatchMatMul": matmul("adj_x", "adj_y", batch="... "),
    "BatchMatMulV2": matmul("adj_x", "adj_y", batch="... "),
    "BatchMatMulV3": matmul("adj_x", "adj_y", batch="... "),
    "Cholesky": "... M M -> ... M M",
    "CholeskyGrad": "... M M, ... M M -> ... M M",
    "Cross": "... A, ... A -> ... A",
    "Eig": outputs_or_empty(["M", "M M"], "compute_v"),
    "Einsum": einsum,
    "FFT": "... A -> ... A",
    "FFT2D": "... A B -> ... A B",
    "IFFT": "... A -> ... A",
    "IFFT2D": "... A B -> ... A B",
    "IRFFT": "... A, _ -> ... B",
    "LogMatrixDeterminant": "... M M -> ..., ...",
    "Lu": "... M M -> ... M M, ... M",
    "MatMul": matmul("transpose_a", "transpose_b"),
    "MatrixDeterminant": "... M M -> ...",
    "MatrixInverse": "... M M -> ... M M",
    "MatrixLogarithm": "... M M -> ... M M",
    "MatrixSolve": "... M M, ... M n -> ... M n",
    "MatrixSolveLs": "... M N, ... M k, _ -> ... N k",
    "MatrixSquareRoot": "... M M -> ... M M",
    "MatrixTriangularSolve": "... M M, ... M n -> ... M n",
    "Qr": outputs_or_empty(["M P", "P N"], ""),
    "RFFT": "... A, _ -> ... B",
    "SelfAdjointEigV2": outputs_or_empty(["M", "M M"], "compute_v"),
    "SparseTensorDenseMatMul": sparse_matmul,
    "Svd": outputs_or_empty(["P", "M P", "N P"], "compute_uv"),
    "TridiagonalMatMul": "... 1 M, ... 1 M, ... 1 M, ... M n -> ... M n",
    "TridiagonalSolve": "... D M, ... M n -> ... M n",
}

CONVOLUTIONS: Mapping[str, Rule] = {
    "AvgPool": pooling("image"),
    "AvgPool3D": pooling("image"),
    "AvgPool3DGrad": pooling("=", "pooled"),
    "AvgPoolGrad": pooling("=", "pooled"),
    "Conv2D": convolution("full", 0, 1, -1),
    "Conv2DBackpropFilter": convolution("full", 0, -1, 2),
    "Conv2DBackpropInput": convolution("full", -1, 1, 2),
    "Conv3D": convolution("full", 0, 1, -1),
    "Conv3DBackpropFilterV2": convolution("full", 0, -1, 2),
    "Conv3DBackpropInputV2": convolution("full", -1, 1, 2),
    "DepthwiseConv2dNative": convolution("depthwise", 0, 1, -1),
    "DepthwiseConv2dNativeBackpropFilter": convolution("depthwise", 0, -1, 2),
    "DepthwiseConv2dNativeBackpropInput": convolution("depthwise", -1, 1, 2),
    "ExtractImagePatches": "n H W C -> n P Q K",
    "LRN": "n h w C -> n h w C",
    "MaxPool": pooling("image"),
    "MaxPool3D": pooling("image"),
    "MaxPool3DGrad": pooling("image", "pooled", "pooled"),
    "MaxPoolGrad": pooling("image", "pooled", "pooled"),
    "ResizeBilinear": "n H W c, _ -> n P Q c",
    "ResizeNearestNeighbor": "n H W c, _ -> n P Q c",
}

MOVEMENT: Mapping[str, Rule] = {
    "BroadcastTo": "..., = -> ...",
    "Concat": concat(0),
    "ConcatV2": concat(-1),
    "ConjugateTranspose": transpose,
    "Diag": whole,
    "DiagPart": whole,
    "ExpandDims": same_axes,
    "Fill": fill,
    "MatrixBandPart": "... A B, _, _ -> ... A B",
    "MatrixDiag": diagonal("result"),
    "MatrixDiagPart": diagonal("operand"),
    "MatrixDiagPartV2": diagonal("operand", 3),
    "MatrixDiagPartV3": diagonal("operand", 3),
    "MatrixDiagV2": diagonal("result", 5),
    "MatrixDiagV3": diagonal("result", 5),
    "MatrixSetDiag": diagonal("both", 2),
    "MatrixSetDiagV2": diagonal("both", 3),
    "MatrixSetDiagV3": diagonal("both", 3),
    "MirrorPad": resized_axes("_"),
    "MirrorPadGrad": resized_axes("_"),
    "Pack": pack,
    "Pad": resized_axes("_"),
    "PadV2": resized_axes("_", ""),
    "Reshape": reshape,
    "Reverse": reverse_flags,
    "ReverseSequence": reverse_sequence,
    "ReverseV2": along(1, keeps=True),
    "Roll": along(2, keeps=True, others=["_", "_"]),
    "Slice": resized_axes("_", "="),
    "Split": split(data_at=1, axis_at=0),
    "SplitV": split(data_at=0, axis_at=2),
    "Squeeze": same_axes,
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "TensorStridedSliceUpdate": strided_slice_update,
    "Tile": tile,
    "Transpose": transpose,
    "Unpack": unpack,
}

INDEXING: Mapping[str, Rule] = {
    "Gather": gather,
    "GatherNd": gather_nd,
    "GatherV2": gather,
    "OneHot": one_hot,
    "ResourceGather": resource_gather,
    "ScatterNd": scatter_nd,
    **same(tensor_scatter, """
        TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate"""),
    "UnsortedSegmentMax": segments("max"),
    "UnsortedSegmentMin": segments("min"),
    "UnsortedSegmentProd": segments("mul"),
    "UnsortedSegmentSum": segments("add"),
}  # fmt: skip

SOURCES: Mapping[str, Rule] = {
    "LinSpace": made_whole,
    "Range": made_whole,
    "Rank": whole,
    "ReadVariableOp": made_whole,
    "Shape": whole,
    "ShapeN": whole,
    "Size": whole,
    **same(made_whole, """
        StatelessMultinomial StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
        StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform
        StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
        StatelessTruncatedNormalV2"""),
}  # fmt: skip

TABLE: Mapping[str, Rule] = {
    **POINTWISE,
    **REDUCTIONS,
    **ALGEBRA,
    **CONVOLUTIONS,
    **MOVEMENT,
    **INDEXING,
    **SOURCES,
}

DATA_SIZE = "its size depends on the values of its operands"
STATEFUL_RANDOM = "it draws other numbers each time, and is never split nor computed twice"


def _because(reason: str, ops: str) -> Mapping[str, str]:
    return dict.fromkeys(words(ops), reason)


# Why an op has no rule, where there is more to say than that it is not in the table.
REASONS: Mapping[str, str] = {
    "Case": "it holds sub-graphs, which are split one by one",
    "Const": "it is a constant; its readers take their chunks of it",
    "If": "it holds sub-graphs, which are split one by one",
    "Loop": "it is split already",
    "PartitionedCall": "it is a call that is not inlined",
    "StatefulPartitionedCall": "it is a call that is not inlined",
    "StatelessCase": "it holds sub-graphs, which are split one by one",
    "StatelessIf": "it holds sub-graphs, which are split one by one",
    "StatelessWhile": "its iterations depend on each other",
    "While": "its iterations depend on each other",
    **_because(DATA_SIZE, "DynamicPartition ListDiff Unique UniqueV2 UniqueWithCounts Where"),
    **_because(STATEFUL_RANDOM, """
        Multinomial ParameterizedTruncatedNormal RandomGamma RandomPoissonV2 RandomShuffle
        RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal"""),
}  # fmt: skip
