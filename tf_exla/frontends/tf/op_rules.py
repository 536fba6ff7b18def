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
    quantized,
    quantized_grad,
    random_rows,
    reduction,
    same,
    sum_all,
    whole,
    words,
)
from tf_exla.frontends.tf.rule_images import (
    batch_norm,
    batch_norm_grad,
    convolution,
    pooling,
    positions_of_maxima,
    space_and_batch,
)
from tf_exla.frontends.tf.rule_indexing import (
    gather,
    gather_nd,
    one_hot,
    resource_gather,
    resource_gather_nd,
    reverse_sequence,
    scatter_nd,
    scatter_rows,
    segments,
    sorted_segments,
    stitch,
    tensor_scatter,
    unravel,
    update_rows,
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
    einsum,
    matmul,
    outputs_or_empty,
    select,
    sparse_matmul,
)

POINTWISE: Mapping[str, Rule] = {
    **pointwise(1, """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0
        BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Bucketize Cast Ceil
        CheckNumerics CheckNumericsV2 ComplexAbs Conj Cos Cosh Dawsn DebugGradientIdentity Digamma
        Elu EnsureShape Erf Erfc Erfinv Exp Expint Expm1 Floor FresnelCos FresnelSin GuaranteeConst
        Identity Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p LogicalNot Ndtri
        Neg OnesLike PlaceholderWithDefault PopulationCount PreventGradient Real Reciprocal Relu
        Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softplus Softsign Spence Sqrt
        Square StopGradient Tan Tanh ZerosLike"""),
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
    "FakeQuantWithMinMaxArgs": "... -> ...",
    "FakeQuantWithMinMaxArgsGradient": "..., ... -> ...",
    "FakeQuantWithMinMaxVars": "..., _, _ -> ...",
    "FakeQuantWithMinMaxVarsGradient": quantized_grad(),
    "FakeQuantWithMinMaxVarsPerChannel": "... c, c, c -> ... c",
    "FakeQuantWithMinMaxVarsPerChannelGradient": quantized_grad(by_channel=True),
    "IdentityN": each_to_its_own,
    "QuantizeAndDequantizeV2": quantized,
    "QuantizeAndDequantizeV3": quantized,
    "QuantizeAndDequantizeV4": quantized,
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
    "InTopK": "a B, a -> a",
    "InTopKV2": "a B, a, _ -> a",
    "IsotonicRegression": "... A -> ... A, ... A",
    "L2Loss": sum_all,
    "LogSoftmax": "... A -> ... A",
    "LowerBound": "a b, a c -> a c ; add b",
    "Max": reduction("max"),
    "MaxWithPosition": reduction("argmax"),
    "Mean": reduction(None),
    "Min": reduction("min"),
    "MinWithPosition": reduction("argmin"),
    "NearestNeighbors": "a D, C D, _ -> a K, a K",
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
    "FFT3D": "... A B C -> ... A B C",
    "IFFT": "... A -> ... A",
    "IFFT2D": "... A B -> ... A B",
    "IFFT3D": "... A B C -> ... A B C",
    "IRFFT": "... A, _ -> ... B",
    "IRFFT2D": "... A B, _ -> ... C D",
    "IRFFT3D": "... A B C, _ -> ... D E F",
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
    "RFFT2D": "... A B, _ -> ... C D",
    "RFFT3D": "... A B C, _ -> ... D E F",
    "SelfAdjointEigV2": outputs_or_empty(["M", "M M"], "compute_v"),
    "SparseMatMul": matmul("transpose_a", "transpose_b"),
    "SparseTensorDenseMatMul": sparse_matmul,
    "Svd": outputs_or_empty(["P", "M P", "N P"], "compute_uv"),
    "TridiagonalMatMul": "... 1 M, ... 1 M, ... 1 M, ... M n -> ... M n",
    "TridiagonalSolve": "... D M, ... M n -> ... M n",
}

IMAGES: Mapping[str, Rule] = {
    "AdjustContrastv2": "... H W c, _ -> ... H W c",
    "AdjustHue": "... C, _ -> ... C",
    "AdjustSaturation": "... C, _ -> ... C",
    "AvgPool": pooling("image", result="pooled"),
    "AvgPool3D": pooling("image", result="pooled"),
    "AvgPool3DGrad": pooling("=", "pooled", result="image"),
    "AvgPoolGrad": pooling("=", "pooled", result="image"),
    "BatchToSpace": space_and_batch,
    "BatchToSpaceND": space_and_batch,
    "Conv2D": convolution("full", 0, 1, -1),
    "Conv2DBackpropFilter": convolution("full", 0, -1, 2),
    "Conv2DBackpropInput": convolution("full", -1, 1, 2),
    "Conv3D": convolution("full", 0, 1, -1),
    "Conv3DBackpropFilterV2": convolution("full", 0, -1, 2),
    "Conv3DBackpropInputV2": convolution("full", -1, 1, 2),
    "CropAndResize": "N H W c, b D, b, _ -> b P Q c",
    "CropAndResizeGradBoxes": "b P Q c, N H W c, b D, b -> b D ; add c",
    "CropAndResizeGradImage": "b P Q c, b D, b, = -> N H W c ; add b",
    "DepthToSpace": "n A B C -> n D E F",
    "DepthwiseConv2dNative": convolution("depthwise", 0, 1, -1),
    "DepthwiseConv2dNativeBackpropFilter": convolution("depthwise", 0, -1, 2),
    "DepthwiseConv2dNativeBackpropInput": convolution("depthwise", -1, 1, 2),
    "Dilation2D": "n H W c, F G c -> n P Q c",
    "Dilation2DBackpropFilter": "n H W c, F G c, n P Q c -> F G c ; add n",
    "Dilation2DBackpropInput": "n H W c, F G c, n P Q c -> n H W c",
    "ExtractImagePatches": "n H W C -> n P Q K",
    "ExtractVolumePatches": "n H W D C -> n P Q R K",
    "FusedBatchNorm": batch_norm,
    "FusedBatchNormGrad": batch_norm_grad,
    "FusedBatchNormGradV2": batch_norm_grad,
    "FusedBatchNormV2": batch_norm,
    "HSVToRGB": "... C -> ... C",
    "ImageProjectiveTransformV2": "n H W c, n T, _ -> n P Q c",
    "ImageProjectiveTransformV3": "n H W c, n T, _, _ -> n P Q c",
    "LRN": "n h w C -> n h w C",
    "LRNGrad": "n h w C, n h w C, n h w C -> n h w C",
    "MaxPool": pooling("image", result="pooled"),
    "MaxPool3D": pooling("image", result="pooled"),
    "MaxPool3DGrad": pooling("image", "pooled", "pooled", result="image"),
    "MaxPool3DGradGrad": pooling("image", "pooled", "image", result="pooled"),
    "MaxPoolGrad": pooling("image", "pooled", "pooled", result="image"),
    "MaxPoolGradGrad": pooling("image", "pooled", "image", result="pooled"),
    "MaxPoolGradWithArgmax": positions_of_maxima("n H W C", "n P Q C", "n P Q C", results=1),
    "MaxPoolWithArgmax": positions_of_maxima("n H W C", results=2),
    "RGBToHSV": "... C -> ... C",
    "ResizeArea": "n H W c, _ -> n P Q c",
    "ResizeBicubic": "n H W c, _ -> n P Q c",
    "ResizeBicubicGrad": "n P Q c, n H W c -> n H W c",
    "ResizeBilinear": "n H W c, _ -> n P Q c",
    "ResizeBilinearGrad": "n P Q c, n H W c -> n H W c",
    "ResizeNearestNeighbor": "n H W c, _ -> n P Q c",
    "ResizeNearestNeighborGrad": "n P Q c, _ -> n H W c",
    "ScaleAndTranslate": "n H W c, _, _, _ -> n P Q c",
    "ScaleAndTranslateGrad": "n P Q c, n H W c, _, _ -> n H W c",
    "SpaceToBatch": space_and_batch,
    "SpaceToBatchND": space_and_batch,
    "SpaceToDepth": "n A B C -> n D E F",
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
    "DynamicStitch": stitch,
    "Gather": gather,
    "GatherNd": gather_nd,
    "GatherV2": gather,
    "OneHot": one_hot,
    "ParallelDynamicStitch": stitch,
    "ResourceGather": resource_gather,
    "ResourceGatherNd": resource_gather_nd,
    "ScatterNd": scatter_nd,
    "ScatterRows": scatter_rows,
    **same(sorted_segments, """
        SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum SparseSegmentMean
        SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtN
        SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSum
        SparseSegmentSumGrad SparseSegmentSumWithNumSegments"""),
    **same(tensor_scatter, """
        ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
        TensorScatterUpdate"""),
    "UnravelIndex": unravel,
    "UnsortedSegmentMax": segments("max"),
    "UnsortedSegmentMin": segments("min"),
    "UnsortedSegmentProd": segments("mul"),
    "UnsortedSegmentSum": segments("add"),
    "UpdateRows": update_rows,
}  # fmt: skip

SOURCES: Mapping[str, Rule] = {
    "InvertPermutation": whole,
    "LinSpace": made_whole,
    "RandomRows": random_rows,
    "Range": made_whole,
    "Rank": whole,
    "ReadVariableOp": made_whole,
    "Shape": whole,
    "ShapeN": whole,
    "Size": whole,
    "SobolSample": made_whole,
    "StatelessShuffle": "A ..., _, _, _ -> A ...",
    **same(made_whole, """
        StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial
        StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomNormal StatelessRandomNormalV2
        StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
        StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
        StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2"""),
}  # fmt: skip

TABLE: Mapping[str, Rule] = {
    **POINTWISE,
    **REDUCTIONS,
    **ALGEBRA,
    **IMAGES,
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
    **_because(DATA_SIZE, """
        DynamicPartition ListDiff NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 Unique
        UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where"""),
    **_because(STATEFUL_RANDOM, """
        Multinomial ParameterizedTruncatedNormal RandomGamma RandomPoissonV2 RandomShuffle
        RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal"""),
}  # fmt: skip
