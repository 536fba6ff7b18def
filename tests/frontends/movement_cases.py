"""Cases of the ops that move elements, read and write by index, convolve and pool."""

from __future__ import annotations

import numpy as np
from frontends.op_cases import F32, Case, Operand, bools, complexes, ints, reals

NO_PADDING = [[0, 0], [1, 2]]

MOVEMENT = [
    Case("BroadcastTo", [(3,), [5, 3]], "..., = -> ..."),
    Case("BroadcastTo", [(5, 1, 3), [2, 5, 7, 3]], "..., = -> ..."),
    Case("BroadcastTo", [(), np.asarray([5, 3], np.int64)], "..., = -> ..."),
    Case("Concat", [1, (5, 2), (5, 3)], "_, a A, a B -> a C"),
    Case("ConcatV2", [(5, 2, 3), (5, 4, 3), (5, 1, 3), -2], "a A c, a B c, a C c, _ -> a D c"),
    Case("ConcatV2", [(5,), (2,), 0], "A, B, _ -> C"),
    Case("ConjugateTranspose", [complexes(5, 3, 2), [2, 0, 1]], "a b c, _ -> c a b"),
    Case("Diag", [(3,)], "A -> B C"),
    Case("DiagPart", [(3, 3)], "A B -> C"),
    Case("ExpandDims", [(5, 3), 1], "a b, _ -> a 1 b"),
    Case("ExpandDims", [(5, 1), -1], "a 1, _ -> a 1 1"),
    Case("ExpandDims", [(), 0], ", _ -> 1"),
    Case("Fill", [[5, 3], ()], "=,  -> a b"),
    Case("MatrixBandPart", [(5, 3, 4), 1, 0], "... A B, _, _ -> ... A B"),
    Case("MatrixDiag", [(5, 2, 3)], "... C -> ... A B"),
    Case("MatrixDiagPart", [(5, 3, 4)], "... A B -> ... C"),
    Case("MatrixDiagPartV2", [(5, 3, 4), 1, ()], "... A B, _,  -> ... C"),
    Case("MatrixDiagPartV3", [(5, 3, 4), [-1, 1], ()], "... A B, _,  -> ... C D"),
    Case("MatrixDiagV2", [(5, 3), 0, -1, -1, ()], "... C, _, _, _,  -> ... A B"),
    Case("MatrixDiagV3", [(5, 3), 1, 4, 4, ()], "... C, _, _, _,  -> ... A B"),
    Case("MatrixDiagV3", [(5, 2, 3), [0, 1], 3, 3, ()], "... C D, _, _, _,  -> ... A B"),
    Case("MatrixSetDiag", [(5, 3, 4), (5, 3)], "... A B, ... C -> ... A B"),
    Case("MatrixSetDiagV2", [(5, 3, 4), (5, 3), 0], "... A B, ... C, _ -> ... A B"),
    Case("MatrixSetDiagV3", [(5, 3, 3), (5, 2, 3), [0, 1]], "... A B, ... C D, _ -> ... A B"),
    Case("MirrorPad", [(5, 3), NO_PADDING], "a A, _ -> a B", {"mode": "REFLECT"}),
    Case("MirrorPadGrad", [(5, 6), NO_PADDING], "a A, _ -> a B", {"mode": "REFLECT"}),
    Case("Pack", [(5, 3), (5, 3)], "a b, a b -> a b A", {"axis": -1}),
    Case("Pack", [(5, 3)], "a b -> A a b", {"axis": 0}),
    Case("Pack", [(), ()], ",  -> A", {"axis": 0}),
    Case("Pad", [(5, 3), NO_PADDING], "a A, _ -> a B"),
    Case("PadV2", [(5, 3), NO_PADDING, ()], "a A, _,  -> a B"),
    Case("Reshape", [(5, 3, 2), [5, -1]], "a b A, = -> a (b A)"),
    Case("Reverse", [(5, 3), [True, False]], "A b, _ -> A b"),
    Case("ReverseSequence", [(5, 4, 3), ints(4, 5)], "a A c, a -> a A c",
         {"seq_dim": 1, "batch_dim": 0}),
    Case("ReverseV2", [(5, 3), [-1]], "a B, _ -> a B"),
    Case("Roll", [(5, 3), [1], [0]], "A b, _, _ -> A b"),
    Case("Slice", [(5, 3), [0, 1], [-1, 2]], "a A, _, = -> a B"),
    Case("Slice", [(5, 3), [0, 0], [5, 3]], "a b, _, = -> a b"),
    Case("Slice", [(5, 3), np.asarray([4, 0]), np.asarray([1, 3])], "A a, _, = -> B a"),
    Case("Split", [1, (5, 6)], "_, a A -> a B, a C, a D", {"num_split": 3}),
    Case("SplitV", [(5, 6), [1, 5], -1], "a A, _, _ -> a B, a C", {"num_split": 2}),
    Case("Squeeze", [(5, 1, 3, 1)], "a 1 b 1 -> a b"),
    Case("Squeeze", [(5, 1, 3, 1)], "a 1 b 1 -> a 1 b", {"squeeze_dims": [-1]}),
    Case("StridedSlice", [(5, 4, 3), [0, 1], [5, 3], [1, 1]], "a A b, _, _, _ -> a B b"),
    Case("StridedSlice", [(5, 4), [0, 0], [0, 0], [1, 2]], "a A, _, _, _ -> a B",
         {"begin_mask": 3, "end_mask": 3}),
    Case("StridedSlice", [(5, 4), [-1, 0], [-6, 4], [-1, 1]], "A a, _, _, _ -> B a"),
    Case("StridedSlice", [(5, 4, 3), [0, 0, 1], [0, 0, 2], [1, 1, 1]],
         "a b A, _, _, _ -> 1 a b",
         {"new_axis_mask": 1, "ellipsis_mask": 2, "shrink_axis_mask": 4}),
    Case("StridedSlice", [(5, 4, 3), [0, 1, 0, 0], [0, 3, 0, 0], [1, 1, 1, 1]],
         "a A b, _, _, _ -> a B 1 b", {"ellipsis_mask": 1, "new_axis_mask": 4, "end_mask": 8}),
    Case("StridedSlice", [(5, 1), [0, 0], [5, 1], [1, 1]], "a A, _, _, _ -> a",
         {"shrink_axis_mask": 2}),
    Case("StridedSliceGrad", [[5, 4], [0, 1], [0, 3], [1, 1], (5, 2)],
         "=, _, _, _, a B -> a A", {"begin_mask": 1, "end_mask": 1}),
    Case("StridedSliceGrad", [[5, 4], [0, 1], [5, 2], [1, 1], (5,)],
         "=, _, _, _, a -> a A", {"shrink_axis_mask": 2}),
    Case("TensorStridedSliceUpdate", [(5, 4), [0, 1], [5, 3], [1, 1], (5, 2)],
         "a A, _, _, _, a B -> a A"),
    Case("Tile", [(5, 1, 3), [1, 4, 2]], "a 1 A, _ -> a b B"),
    Case("Tile", [(1,), [1]], "a, _ -> a"),
    Case("Transpose", [(5, 3, 2), [1, 2, 0]], "a b c, _ -> b c a"),
    Case("Transpose", [(5,), np.asarray([0])], "a, _ -> a"),
    Case("Unpack", [(5, 2, 3)], "a A b -> a b, a b", {"axis": -2, "num": 2}),
]  # fmt: skip

RESHAPES: list[tuple[tuple[int, ...], list[int], str]] = [
    ((5, 3), [5, 3], "a b, = -> a b"),
    ((5, 3), [15], "a A, = -> (a A)"),
    ((15,), [5, 3], "(a A), = -> a A"),
    ((15,), [5, 3, 1], "(a A), = -> a A 1"),
    ((1, 5, 3), [15, 1], "1 a A, = -> (a A) 1"),
    ((1, 1), [1], "1 1, = -> 1"),
    ((), [1], ", = -> 1"),
    ((7, 6), [7, 2, 3], "a (b A), = -> a b A"),
    ((7, 2, 3, 5), [14, 15], "a A b B, = -> (a A) (b B)"),
    ((6, 4), [4, 6], "A B, = -> C D"),
    ((6, 4, 5), [4, 6, 5], "A B a, = -> C D a"),
    ((6, 35), [2, 3, 7, 5], "(a A) (b B), = -> a A b B"),
    ((0, 3), [3, 0], "A B, = -> C D"),
]

INDEXING = [
    Case("Gather", [(5, 3), ints(5, 7, 2)], "A c, a b -> a b c"),
    Case("GatherNd", [(5, 4, 3), ints(4, 7, 2)], "A B b, a C -> a b"),
    Case("GatherNd", [(5, 4), ints(4, 2)], "A B, C -> "),
    Case("GatherV2", [(5, 4, 3), ints(4, 7), 1], "a A c, b, _ -> a b c"),
    Case("GatherV2", [(5, 4, 3), ints(3, 5, 7), 2], "a b A, a c, _ -> a b c", {"batch_dims": 1}),
    Case("GatherV2", [(5, 3), 2, 0], "A a, , _ -> a"),
    Case("OneHot", [ints(3, 5, 2), 3, (), ()], "a b, _, ,  -> a b A", {"axis": -1}),
    Case("OneHot", [ints(3, 5, 2), 3, (), ()], "a b, _, ,  -> A a b", {"axis": 0}),
    Case("ScatterNd", [ints(4, 7, 1), (7, 3), [4, 3]], "a A, a b, = -> B b ; add a"),
    Case(
        "ScatterNd", [np.asarray([[0], [2]], np.int32), bools(2, 3), [4, 3]], "A B, A a, = -> C a"
    ),
    Case("TensorScatterAdd", [(5, 3), ints(5, 7, 1), (7, 3)], "B a, A C, A a -> B a"),
    Case("TensorScatterMax", [(5, 3), ints(5, 7, 1), (7, 3)], "B a, A C, A a -> B a"),
    Case("TensorScatterMin", [(5, 3), ints(5, 7, 1), (7, 3)], "B a, A C, A a -> B a"),
    Case("TensorScatterSub", [(5, 3), ints(5, 7, 1), (7, 3)], "B a, A C, A a -> B a"),
    Case("TensorScatterUpdate", [(5, 3), np.asarray([[1], [3]]), (2, 3)], "B a, A C, A a -> B a"),
    Case("UnsortedSegmentMax", [(5, 3), ints(4, 5), 4], "a b, a, _ -> A b ; max a"),
    Case("UnsortedSegmentMin", [(5, 3), ints(4, 5), 4], "a b, a, _ -> A b ; min a"),
    Case("UnsortedSegmentProd", [(5, 3), ints(4, 5), 4], "a b, a, _ -> A b ; mul a"),
    Case("UnsortedSegmentSum", [(5, 2, 3), ints(4, 5, 2), 4], "a b c, a b, _ -> A c ; add a b"),
]

SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}
SAME3 = {"strides": [1, 1, 1, 1, 1], "padding": "SAME"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
POOL3 = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
IMAGE, KERNEL, MADE = (5, 4, 4, 2), (3, 3, 2, 6), (5, 4, 4, 6)
IMAGE3, KERNEL3, MADE3 = (3, 4, 4, 4, 2), (2, 2, 2, 2, 3), (3, 4, 4, 4, 3)
BAND = (3, 3, 2, 3)
HALF = (5, 2, 2, 2)


def pooled(image: tuple[int, ...], dtype: type = np.float64) -> list[Operand]:
    """Return an image, its maxima over blocks of two, and gradients of those."""
    values = reals(*image).astype(dtype)
    blocks = values.reshape(image[0], *(n for s in image[1:-1] for n in (s // 2, 2)), image[-1])
    maxima = blocks.max(axis=tuple(2 + 2 * axis for axis in range(len(image) - 2)))
    return [values, maxima, reals(*maxima.shape).astype(dtype)]


CONVOLUTIONS = [
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
]  # fmt: skip
