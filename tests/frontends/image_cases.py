"""Cases of the ops on batches of images: convolve, pool, normalize, resize."""

from __future__ import annotations

import numpy as np
from frontends.op_cases import F32, Case, Operand, ints, number, reals

SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}
SAME3 = {"strides": [1, 1, 1, 1, 1], "padding": "SAME"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
POOL3 = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
IMAGE, KERNEL, MADE = (5, 4, 4, 2), (3, 3, 2, 6), (5, 4, 4, 6)
IMAGE3, KERNEL3, MADE3 = (3, 4, 4, 4, 2), (2, 2, 2, 2, 3), (3, 4, 4, 4, 3)
BAND = (3, 3, 2, 3)
HALF = (5, 2, 2, 2)
SMALL, COLOURS = reals(*IMAGE).astype(F32), reals(5, 4, 3).astype(F32)
BOXES = np.sort(reals(7, 2, 2), 1).reshape(7, 4).astype(F32)
CROPS = reals(7, 3, 2, 2).astype(F32)
CHANNEL, EMPTY = 1 + reals(2).astype(F32), np.zeros([0], F32)
DILATION = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
GIVEN = {"is_training": False}
NONE = [[0, 0], [0, 0]]
SCALING = [np.asarray([0.7, 1.2], F32), np.asarray([0.1, 0.3], F32)]
TURN = {"interpolation": "BILINEAR"}
TURNS = (np.eye(5, 8) * 0 + [1, 0.1, 0, 0, 1, 0, 0, 0] + 0.1 * np.eye(5, 8)).astype(F32)


def pooled(image: tuple[int, ...], dtype: type = np.float64) -> list[Operand]:
    """Return an image, its maxima over blocks of two, and gradients of those."""
    values = reals(*image).astype(dtype)
    blocks = values.reshape(image[0], *(n for s in image[1:-1] for n in (s // 2, 2)), image[-1])
    maxima = blocks.max(axis=tuple(2 + 2 * axis for axis in range(len(image) - 2)))
    return [values, maxima, reals(*maxima.shape).astype(dtype)]


IMAGES = [
    Case("AvgPool", [IMAGE], "n H0 H1 c -> n P0 P1 c", POOL),
    Case("AvgPool3D", [reals(*IMAGE3).astype(F32)], "n H0 H1 H2 c -> n P0 P1 P2 c", POOL3),
    Case("AvgPool3DGrad", [list(IMAGE3), reals(3, 2, 2, 2, 2).astype(F32)],
         "=, n P0 P1 P2 c -> n H0 H1 H2 c", POOL3),
    Case("AvgPoolGrad", [list(IMAGE), HALF], "=, n P0 P1 c -> n H0 H1 c", POOL),
    Case("Conv2D", [IMAGE, KERNEL], "n H0 H1 c, F0 F1 c o -> n P0 P1 o ; add c", SAME),
    Case("Conv2D", [IMAGE, (3, 3, 1, 6)], "n H0 H1 C, F0 F1 D O -> n P0 P1 O", SAME),
    Case("Conv2DBackpropFilter", [IMAGE, list(KERNEL), MADE],
         "n H0 H1 c, =, n P0 P1 o -> F0 F1 c o ; add n", SAME),
    Case("Conv2DBackpropInput", [list(IMAGE), KERNEL, MADE],
         "=, F0 F1 c o, n P0 P1 o -> n H0 H1 c ; add o", SAME),
    Case("Conv3D", [IMAGE3, KERNEL3],
         "n H0 H1 H2 c, F0 F1 F2 c o -> n P0 P1 P2 o ; add c", SAME3),
    Case("Conv3DBackpropFilterV2", [IMAGE3, list(KERNEL3), MADE3],
         "n H0 H1 H2 c, =, n P0 P1 P2 o -> F0 F1 F2 c o ; add n", SAME3),
    Case("Conv3DBackpropInputV2", [list(IMAGE3), KERNEL3, MADE3],
         "=, F0 F1 F2 c o, n P0 P1 P2 o -> n H0 H1 H2 c ; add o", SAME3),
    Case("DepthwiseConv2dNative", [IMAGE, BAND],
         "n H0 H1 c, F0 F1 c M -> n P0 P1 (c M)", SAME),
    Case("DepthwiseConv2dNativeBackpropFilter", [IMAGE, list(BAND), MADE],
         "n H0 H1 c, =, n P0 P1 (c M) -> F0 F1 c M ; add n", SAME),
    Case("DepthwiseConv2dNativeBackpropInput", [list(IMAGE), BAND, MADE],
         "=, F0 F1 c M, n P0 P1 (c M) -> n H0 H1 c", SAME),
    Case("ExtractImagePatches", [IMAGE], "n H W C -> n P Q K",
         {"ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1],
          "padding": "VALID"}),
    Case("LRN", [reals(*IMAGE).astype(F32)], "n h w C -> n h w C"),
    Case("MaxPool", [IMAGE], "n H0 H1 c -> n P0 P1 c", POOL),
    Case("MaxPool3D", [reals(*IMAGE3).astype(F32)], "n H0 H1 H2 c -> n P0 P1 P2 c", POOL3),
    Case("MaxPool3DGrad", pooled(IMAGE3, F32),
         "n H0 H1 H2 c, n P0 P1 P2 c, n P0 P1 P2 c -> n H0 H1 H2 c", POOL3),
    Case("MaxPoolGrad", pooled(IMAGE),
         "n H0 H1 c, n P0 P1 c, n P0 P1 c -> n H0 H1 c", POOL),
    Case("ResizeBilinear", [IMAGE, [3, 5]], "n H W c, _ -> n P Q c"),
    Case("ResizeNearestNeighbor", [IMAGE, [3, 5]], "n H W c, _ -> n P Q c"),
    Case("AdjustContrastv2", [SMALL, number(2)], "... H W c, _ -> ... H W c"),
    Case("AdjustHue", [COLOURS, number(0.2)], "... C, _ -> ... C"),
    Case("AdjustSaturation", [COLOURS, number(2)], "... C, _ -> ... C"),
    Case("BatchToSpace", [(8, 2, 2, 3), NONE], "A B C a, _ -> D E F a", {"block_size": 2}),
    Case("BatchToSpaceND", [(8, 2, 2, 3, 2), [2, 2], NONE], "A B C a b, _, _ -> D E F a b"),
    Case("CropAndResize", [SMALL, BOXES, ints(5, 7), [3, 2]], "N H W c, b D, b, _ -> b P Q c"),
    Case("CropAndResizeGradBoxes", [CROPS, SMALL, BOXES, ints(5, 7)],
         "b P Q c, N H W c, b D, b -> b D ; add c"),
    Case("CropAndResizeGradImage", [CROPS, BOXES, ints(5, 7), list(IMAGE)],
         "b P Q c, b D, b, = -> N H W c ; add b", {"T": "float32"}),
    Case("DepthToSpace", [(5, 3, 4, 8)], "n A B C -> n D E F", {"block_size": 2}),
    Case("Dilation2D", [IMAGE, (2, 2, 2)], "n H W c, F G c -> n P Q c", DILATION),
    Case("Dilation2DBackpropFilter", [IMAGE, (2, 2, 2), (5, 3, 3, 2)],
         "n H W c, F G c, n P Q c -> F G c ; add n", DILATION),
    Case("Dilation2DBackpropInput", [IMAGE, (2, 2, 2), (5, 3, 3, 2)],
         "n H W c, F G c, n P Q c -> n H W c", DILATION),
    Case("ExtractVolumePatches", [IMAGE3], "n H W D C -> n P Q R K",
         {"ksizes": [1, 2, 2, 2, 1], "strides": [1, 1, 1, 1, 1], "padding": "VALID"}),
    *(Case(f"FusedBatchNorm{v}", [SMALL, *[CHANNEL] * 2, *[EMPTY] * 2],
           "N H0 H1 c, c, c, E, E -> N H0 H1 c, c, c, c, c") for v in ("", "V2")),
    *(Case(f"FusedBatchNorm{v}", [SMALL, *[CHANNEL] * 4],
           "n h0 h1 c, c, c, c, c -> n h0 h1 c, c, c, c, c ; max n h0 h1", GIVEN)
      for v in ("", "V2")),
    *(Case(f"FusedBatchNormGrad{v}", [SMALL, SMALL, *[CHANNEL] * 3],
           "N H0 H1 c, N H0 H1 c, c, c, c -> N H0 H1 c, c, c, , ") for v in ("", "V2")),
    *(Case(f"FusedBatchNormGrad{v}", [SMALL, SMALL, *[CHANNEL] * 3],
           "n h0 h1 c, n h0 h1 c, c, c, c -> n h0 h1 c, c, c, , ; add n h0 h1", GIVEN)
      for v in ("", "V2")),
    Case("HSVToRGB", [COLOURS], "... C -> ... C"),
    Case("ImageProjectiveTransformV2", [SMALL, TURNS, [3, 4]], "n H W c, n T, _ -> n P Q c", TURN),
    Case("ImageProjectiveTransformV2", [SMALL, TURNS[:1], [3, 4]], "n H W c, n T, _ -> n P Q c",
         TURN),
    Case("ImageProjectiveTransformV3", [SMALL, TURNS, [3, 4], number(0.5)],
         "n H W c, n T, _, _ -> n P Q c", TURN),
    Case("LRNGrad", [SMALL, SMALL, SMALL], "n h w C, n h w C, n h w C -> n h w C"),
    Case("MaxPool3DGradGrad", [*pooled(IMAGE3, F32)[:2], reals(*IMAGE3).astype(F32)],
         "n H0 H1 H2 c, n P0 P1 P2 c, n H0 H1 H2 c -> n P0 P1 P2 c", POOL3),
    Case("MaxPoolGradGrad", [*pooled(IMAGE)[:2], IMAGE],
         "n H0 H1 c, n P0 P1 c, n H0 H1 c -> n P0 P1 c", POOL),
    Case("MaxPoolGradWithArgmax", [IMAGE, HALF, ints(32, 5, 2, 2, 2).astype(np.int64)],
         "n H W C, n P Q C, n P Q C -> n H W C", POOL),
    Case("MaxPoolWithArgmax", [IMAGE], "n H W C -> n P Q C, n P Q C", POOL),
    Case("MaxPoolWithArgmax", [IMAGE], "A B C D -> E F G H, I J K L",
         {**POOL, "include_batch_in_index": True}),
    Case("RGBToHSV", [COLOURS], "... C -> ... C"),
    Case("ResizeArea", [IMAGE, [3, 5]], "n H W c, _ -> n P Q c"),
    Case("ResizeBicubic", [IMAGE, [3, 5]], "n H W c, _ -> n P Q c"),
    Case("ResizeBicubicGrad", [reals(5, 3, 5, 2).astype(F32), IMAGE],
         "n P Q c, n H W c -> n H W c"),
    Case("ResizeBilinearGrad", [reals(5, 3, 5, 2).astype(F32), IMAGE],
         "n P Q c, n H W c -> n H W c"),
    Case("ResizeNearestNeighborGrad", [(5, 3, 5, 2), [4, 4]], "n P Q c, _ -> n H W c"),
    Case("ScaleAndTranslate", [SMALL, [3, 5], *SCALING], "n H W c, _, _, _ -> n P Q c"),
    Case("ScaleAndTranslateGrad", [reals(5, 3, 5, 2).astype(F32), SMALL, *SCALING],
         "n P Q c, n H W c, _, _ -> n H W c"),
    Case("SpaceToBatch", [(2, 4, 4, 3), NONE], "A B C a, _ -> D E F a", {"block_size": 2}),
    Case("SpaceToBatchND", [(2, 4, 4, 3, 2), [2, 2], NONE], "A B C a b, _, _ -> D E F a b"),
    Case("SpaceToBatchND", [(2, 4, 3), [2], [[0, 0]]], "A B a, _, _ -> C D a"),
    Case("SpaceToDepth", [(5, 6, 8, 2)], "n A B C -> n D E F", {"block_size": 2}),
]  # fmt: skip
