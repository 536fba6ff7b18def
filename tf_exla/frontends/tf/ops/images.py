"""Records of convolutions, pooling, normalization and other ops on images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tf_exla.frontends.tf.ops import windows
from tf_exla.frontends.tf.ops.convolutions import OPERANDS, bounds
from tf_exla.frontends.tf.ops.memory import cpu, cpu_products, gpu
from tf_exla.frontends.tf.ops.memory.call import Bound, copy_of_everything
from tf_exla.frontends.tf.ops.record import Op, many, product, without_scratch
from tf_exla.frontends.tf.ops.rules.images import (
    batch_norm,
    batch_norm_grad,
    convolution,
    pooling,
    positions_of_maxima,
    space_and_batch,
)
from tf_exla.vocabulary import flops, rebuild

pool = partial(without_scratch, pooling("image", result="pooled"), flops=flops.per_operand,
    gpu=copy_of_everything)  # fmt: skip
depthwise = partial(flops.convolution, summed=-2)
_MEANS = windows.pooling("image", result="pooled", maxima=False)
_MEANS_GRAD = windows.pooling("", "pooled", result="image", maxima=False)
_MAXIMA = windows.pooling("image", result="pooled", maxima=True)
_MAXIMA_GRAD = windows.pooling("image", "pooled", "pooled", result="image", maxima=True)


def convolve(op: str, kernel: Bound, **given: Any) -> Op:
    """Return the record of a convolution or of one of its gradients; `kernel`: a CPU kernel's."""
    images, filters, result = OPERANDS[op]
    return product(convolution("full", images, filters, result),
        flops=flops.convolution(filters, result), cpu=bounds(op, kernel), gpu=gpu.convolution,
        windows=windows.convolution(images, filters, result), **given)  # fmt: skip


OPS: Mapping[str, Op] = {
    "AdjustContrastv2": Op("... H W c, _ -> ... H W c"),
    **many(Op("... C, _ -> ... C"), "AdjustHue AdjustSaturation"),
    "AvgPool": pool(cpu=cpu.average_pool, windows=_MEANS),
    "AvgPool3D": Op(pooling("image", result="pooled"), windows=_MEANS),
    "AvgPool3DGrad": Op(pooling("=", "pooled", result="image"), windows=_MEANS_GRAD),
    "AvgPoolGrad": without_scratch(pooling("=", "pooled", result="image"), gpu=copy_of_everything,
        windows=_MEANS_GRAD),
    **many(Op(space_and_batch), "BatchToSpace BatchToSpaceND SpaceToBatch"),
    "Conv2D": convolve("Conv2D", cpu_products.convolution),
    "Conv2DBackpropFilter": convolve("Conv2DBackpropFilter", cpu_products.conv2d_grad(0, -1),
        shape_operand=1, unordered=True),
    "Conv2DBackpropInput": convolve("Conv2DBackpropInput", cpu_products.conv2d_grad(-1, 1),
        shape_operand=0, unordered=True),
    "Conv3D": convolve("Conv3D", cpu_products.convolution),
    "Conv3DBackpropFilterV2": convolve("Conv3DBackpropFilterV2", cpu_products.conv3d_grad(-1),
        shape_operand=1, unordered=True),
    "Conv3DBackpropInputV2": convolve("Conv3DBackpropInputV2", cpu_products.conv3d_grad(1),
        shape_operand=0, unordered=True),
    "CropAndResize": without_scratch("N H W c, b D, b, _ -> b P Q c"),
    "CropAndResizeGradBoxes": Op("b P Q c, N H W c, b D, b -> b D ; add c"),
    "CropAndResizeGradImage": Op("b P Q c, b D, b, = -> N H W c ; add b"),
    "DepthToSpace": Op("n A B C -> n D E F", windows=windows.resolution("pooled", "image")),
    "DepthwiseConv2dNative": Op(convolution("depthwise", 0, 1, -1), flops=depthwise(1, -1),
        cpu=cpu_products.depthwise, gpu=copy_of_everything, windows=windows.convolution(0, 1, -1)),
    "DepthwiseConv2dNativeBackpropFilter": Op(convolution("depthwise", 0, -1, 2),
        flops=depthwise(-1, 2), cpu=cpu_products.depthwise_filter_grad, gpu=copy_of_everything,
        shape_operand=1, unordered=True, windows=windows.convolution(0, -1, 2)),
    "DepthwiseConv2dNativeBackpropInput": Op(convolution("depthwise", -1, 1, 2),
        flops=depthwise(1, 2), cpu=cpu_products.depthwise_input_grad, gpu=copy_of_everything,
        shape_operand=0, unordered=True, windows=windows.convolution(-1, 1, 2)),
    "Dilation2D": Op("n H W c, F G c -> n P Q c", flops=flops.convolution(1, -1)),
    "Dilation2DBackpropFilter": Op("n H W c, F G c, n P Q c -> F G c ; add n",
        flops=flops.convolution(1, 2)),
    "Dilation2DBackpropInput": Op("n H W c, F G c, n P Q c -> n H W c",
        flops=flops.convolution(1, 2)),
    "ExtractImagePatches": without_scratch(),
    "ExtractVolumePatches": Op("n H W D C -> n P Q R K"),
    "FusedBatchNorm": Op(batch_norm),
    **many(Op(batch_norm_grad), "FusedBatchNormGrad FusedBatchNormGradV2"),
    "FusedBatchNormV2": Op(batch_norm, cpu=cpu.moments, gpu=copy_of_everything),
    **many(Op("... C -> ... C"), "HSVToRGB RGBToHSV"),
    "ImageProjectiveTransformV2": Op("n H W c, n T, _ -> n P Q c"),
    "ImageProjectiveTransformV3": Op("n H W c, n T, _, _ -> n P Q c"),
    "LRN": Op("n h w C -> n h w C"),
    "LRNGrad": without_scratch("n h w C, n h w C, n h w C -> n h w C"),
    "MaxPool": pool(chooses=True, windows=_MAXIMA),
    "MaxPool3D": Op(pooling("image", result="pooled"), chooses=True, windows=_MAXIMA),
    "MaxPool3DGrad": Op(pooling("image", "pooled", "pooled", result="image"), unordered=True,
        windows=_MAXIMA_GRAD),
    **many(Op(pooling("image", "pooled", "image", result="pooled")), """
        MaxPool3DGradGrad MaxPoolGradGrad"""),
    "MaxPoolGrad": Op(pooling("image", "pooled", "pooled", result="image"), gpu=copy_of_everything,
        unordered=True, windows=_MAXIMA_GRAD),
    "MaxPoolGradWithArgmax": Op(positions_of_maxima("n H W C", "n P Q C", "n P Q C", results=1)),
    "MaxPoolWithArgmax": Op(positions_of_maxima("n H W C", results=2)),
    "ResizeArea": Op("n H W c, _ -> n P Q c", cpu=cpu.resized(32, everything=True)),
    "ResizeBicubic": Op("n H W c, _ -> n P Q c", cpu=cpu.resized(64), gpu=gpu.moved),
    "ResizeBicubicGrad": Op("n P Q c, n H W c -> n H W c", cpu=cpu.resized(64, everything=True)),
    "ResizeBilinear": Op("n H W c, _ -> n P Q c", cpu=cpu.resized(32), gpu=gpu.moved,
        rebuild=rebuild.space, windows=windows.interpolation("pooled", "", result="image")),
    "ResizeBilinearGrad": Op("n P Q c, n H W c -> n H W c",
        windows=windows.interpolation("image", "pooled", result="pooled")),
    "ResizeNearestNeighbor": Op("n H W c, _ -> n P Q c", rebuild=rebuild.space,
        windows=windows.resolution("pooled", "image")),
    "ResizeNearestNeighborGrad": Op("n P Q c, _ -> n H W c", rebuild=rebuild.space,
        windows=windows.resolution("image", "pooled")),
    "ScaleAndTranslate": Op("n H W c, _, _, _ -> n P Q c"),
    "ScaleAndTranslateGrad": Op("n P Q c, n H W c, _, _ -> n H W c"),
    "SpaceToBatchND": without_scratch(space_and_batch),
    "SpaceToDepth": Op("n A B C -> n D E F", windows=windows.resolution("image", "pooled")),
}  # fmt: skip
