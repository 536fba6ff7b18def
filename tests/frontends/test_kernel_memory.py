"""Measure TensorFlow's kernels against the table of what they allocate."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from fresh_process import run_fresh
from samples import but

from tf_exla.frontends.tf.ops.scratch import gpu_scratch_bytes, scratch_bytes
from tf_exla.frontends.tf.ops.table import OPS as TABLE

SLACK = 1_000_000
THREADS = os.cpu_count() or 1
GROUPS = ["_products", "_linear_algebra", "_transforms", "_images", "_reductions", "_others"]


class Case(NamedTuple):
    """One call of an op; `tight`: the bound must not exceed the measurement much."""

    op: str
    call: Callable[..., Any]
    shapes: list[tuple[int, ...]]
    dtype: str = "float64"
    tight: bool = True


class Tensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    value: Any = None


def _products(R: Any) -> list[Case]:
    def matmul(rows: int, inner: int, cols: int, dtype: str, left: int, right: int) -> Case:
        return Case(
            "MatMul",
            lambda a, b: R.MatMul(a=a, b=b, transpose_a=bool(left), transpose_b=bool(right)),
            [(inner, rows) if left else (rows, inner), (cols, inner) if right else (inner, cols)],
            dtype,
            # float32's blocks are larger than Eigen's own; untouched parts are not measured.
            tight=dtype == "float64" and (rows, inner) != (3000, 1),
        )

    def batch(b: int, rows: int, inner: int, cols: int) -> Case:
        call = lambda x, y: R.BatchMatMulV2(x=x, y=y)  # noqa: E731
        return Case("BatchMatMulV2", call, [(b, rows, inner), (b, inner, cols)])

    # Many small matrices: a position in either operand for each.
    many, one = (500_000, 1, 2), (2, 1)
    broadcast = [
        Case("BatchMatMulV2", lambda x, y: R.BatchMatMulV2(x=x, y=y), [many, one]),
        Case("BatchMatMulV3", lambda x, y: R.BatchMatMulV3(x=x, y=y, Tout="float32"), [many, one],
             "float32", tight=False),
        Case("Einsum", lambda x, y: R.Einsum(inputs=[x, y], equation="...ij,jk->...ik"),
             [many, one], "float32", tight=False),
    ]  # fmt: skip

    sizes = [
        *((500, 20000, 500), (500, 500, 4000), (4000, 500, 500), (20000, 500, 100)),
        *((100, 500, 20000), (4000, 3, 500), (300, 641, 10000)),
        *((3, 500000, 2), (7, 50000, 300), (2000, 2000, 1), (1, 2000, 2000), (3000, 1, 3000)),
        *((50000, 3, 50), (301, 330, 9999), (2500, 2500, 700)),
    ]
    return [
        *broadcast,
        *(matmul(*s, "float64", t, t) for s in sizes for t in (0, 1)),
        *(matmul(*s, "float64", *t) for s in sizes[1:3] for t in ((0, 1), (1, 0))),
        *(matmul(*s, "float32", 0, 0) for s in sizes[1:6]),
        # Blocks of Eigen's own length would be enough for it to shard along one axis only.
        *(matmul(*s, "float32", 0, 1) for s in ((100, 200, 5904), (50, 200, 5904))),
        *(batch(*s) for s in ((4, 700, 700, 700), (500, 30, 30, 30), (20, 500, 1, 500))),
        *(batch(*s) for s in ((20, 500, 500, 1), (1000, 100, 20, 1))),
    ]


def _linear_algebra(R: Any) -> list[Case]:
    def solve(matrix: tuple[int, ...], rhs: tuple[int, ...], lower: bool, adjoint: bool) -> Case:
        return Case(
            "MatrixTriangularSolve",
            lambda a, b: R.MatrixTriangularSolve(matrix=a, rhs=b, lower=lower, adjoint=adjoint),
            [matrix, rhs],
        )

    def unary(op: str, shape: tuple[int, ...], **attrs: Any) -> Case:
        return Case(op, lambda a: getattr(R, op)(input=a, **attrs), [shape], tight=False)

    shapes = [
        *(((300, 300), (300, 20000)), ((50, 50), (50, 50000)), ((1000, 1000), (1000, 300))),
        *(((4, 300, 300), (4, 300, 2000)), ((300, 300), (4, 300, 2000)), ((1000, 1000), (1000, 1))),
        *(((4, 300, 300), (300, 2000)), ((3, 3), (3, 300000)), ((500_000, 1, 1), (1, 1))),
    ]
    squares = [(800, 800), (6, 200, 200)]
    return [
        *(solve(*shapes[0], *flags) for flags in product((True, False), repeat=2)),
        *(solve(*s, True, adjoint) for s in shapes[1:] for adjoint in (True, False)),
        *(unary(op, s) for op in ("Cholesky", "MatrixInverse") for s in squares),
        *(unary(op, s) for op in ("MatrixDeterminant", "LogMatrixDeterminant") for s in squares),
        *(unary(op, (500, 500)) for op in ("Lu", "MatrixSquareRoot")),
        unary("Eig", (500, 500), Tout="complex128"),
        unary("SelfAdjointEigV2", (300, 300), compute_v=True),
        unary("Qr", (1500, 200)),
        unary("Qr", (200, 1500)),
        unary("Qr", (1500, 200), full_matrices=True),
        unary("Svd", (1000, 100)),
        unary("Svd", (4, 200, 200)),
        unary("Svd", (1000, 100), full_matrices=True),
        unary("Svd", (1000, 100), compute_uv=False),
        Case(
            "MatrixSolve", lambda a, b: R.MatrixSolve(matrix=a, rhs=b), [(500, 500), (500, 9000)],
            tight=False,
        ),
        *(Case("MatrixSolveLs", lambda a, b: R.MatrixSolveLs(
            matrix=a, rhs=b, l2_regularizer=0.0, fast=False), [(*batch, m, n), (*batch, m, k)])
          for batch, m, n, k in (((), 3000, 300, 4), ((), 300, 3000, 4), ((), 1000, 1000, 300),
                                 ((50,), 300, 200, 3), ((), 20_000, 50, 10))),
        *(Case("TridiagonalSolve", lambda d, b, pivots=pivots: R.TridiagonalSolve(
            diagonals=d, rhs=b, partial_pivoting=pivots), [(*batch, 3, n), (*batch, n, 1)])
          for batch, n in (((), 500_000), ((500,), 700)) for pivots in (True, False)),
    ]  # fmt: skip


def _transforms(R: Any) -> list[Case]:
    """Fourier transforms of smooth lengths, of primes, and of a few times a prime."""

    def complex_(shape: tuple[int, ...], axes: int) -> Case:
        op = f"FFT{axes}D" if axes > 1 else "FFT"
        return Case(op, lambda x: getattr(R, op)(input=x), [shape], "complex64", tight=False)

    def real(shape: tuple[int, ...], axes: int, less: int = 0) -> Case:
        op, lengths = f"RFFT{axes}D" if axes > 1 else "RFFT", list(shape[-axes:])
        lengths[-1] -= less
        call = lambda x: getattr(R, op)(input=x, fft_length=np.array(lengths, np.int32))  # noqa: E731
        return Case(op, call, [shape], "float32", tight=False)

    def inverse(shape: tuple[int, ...], axes: int) -> Case:
        op, lengths = f"IRFFT{axes}D" if axes > 1 else "IRFFT", list(shape[-axes:])
        call = lambda x: getattr(R, op)(input=x, fft_length=np.array(lengths, np.int32))  # noqa: E731
        return Case(op, call, [(*shape[:-1], shape[-1] // 2 + 1)], "complex64", tight=False)

    rows = [
        *((1_000_003,), (1_000_018,), (900_021,), (1 << 20,), (8, 100_003), (64, 10_007)),
        *((1000, 1009), (300, 4001), (20, 30_011)),
    ]
    planes = [(1009, 1009), (2003, 17), (17, 20_011), (5, 300, 401)]
    return [
        *(make(shape, 1) for make in (complex_, real, inverse) for shape in rows),
        *(make(shape, 2) for make in (complex_, real, inverse) for shape in planes),
        *(make((3, 64, 64, 67), 3) for make in (complex_, real, inverse)),
        *(real(shape, 1, less=shape[-1] // 9) for shape in rows),
    ]


def _reductions(R: Any) -> list[Case]:
    def reduce(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> Case:
        return Case(op, lambda x: getattr(R, op)(input=x, axis=list(axes)), [shape])

    shapes = [(10**6,), (2, 500000), (1000, 1000), (10, 1000, 100), (10, 40, 50, 50)]
    return [
        *(
            reduce("Sum", shape, axes)
            for shape in shapes
            for count in range(1, len(shape) + 1)
            for axes in combinations(range(len(shape)), count)
        ),
        *(
            Case("NthElement", lambda x: R.NthElement(input=x, n=5), [shape])
            for shape in ((2_000_000,), (3, 500_000), (5000, 300))
        ),
        *(reduce(op, shapes[-1], (0, 2)) for op in ("Max", "Mean", "Min", "Prod")),
        Case("BiasAddGrad", lambda x: R.BiasAddGrad(out_backprop=x), [(4, 1_000_000)]),
        Case(
            "BiasAddGrad",
            lambda x: R.BiasAddGrad(out_backprop=x, data_format="NCHW"),
            [(2, 1_000_000, 2)],
        ),
        *(
            Case("TopKV2", lambda x, k=k: R.TopKV2(input=x, k=k), [(1_000_000, 3)], tight=False)
            for k in (1, 2)
        ),
        *(reduce(op, (10, 1, 40, 1, 2500), (0, 3)) for op in ("Max", "Mean")),
        reduce("Sum", (3, 40, 3, 40, 100), (-1, -3, 0)),
    ]


def _entries() -> Any:
    """Return the positions of 300,000 entries of a sparse matrix of 2,000 by 500."""
    return np.stack(np.divmod(np.arange(0, 900_000, 3), 500), axis=1)


def _others(R: Any) -> list[Case]:
    matrix, row, column = (2000, 500), (1, 500), (2000, 1)
    zero = 0.0
    return [
        *(Case(op, lambda x, y, op=op: getattr(R, op)(x=x, y=y), [matrix, other])
          for op in ("AddV2", "Less", "Maximum", "Mul", "Pow", "RealDiv", "SquaredDifference")
          for other in (matrix, row, column)),
        *(Case(op, lambda x, op=op: getattr(R, op)(x=x), [matrix])
          for op in ("Acos", "Digamma", "Erf", "Exp", "Lgamma", "Log1p", "Neg", "Tanh")),
        *(Case("ConcatV2", lambda x, y, a=a: R.ConcatV2(values=[x, y], axis=a), [matrix, matrix])
          for a in (0, 1)),
        *(Case(op, lambda x, op=op, a=a: getattr(R, op)(x=x, axis=a), [matrix])
          for op in ("Cumprod", "Cumsum") for a in (0, 1)),
        *(Case(op, lambda x, op=op: getattr(R, op)(logits=x), [shape])
          for op in ("LogSoftmax", "Softmax") for shape in (matrix, (10**6, 3))),
        *(Case(op, lambda x, op=op: getattr(R, op)(input=x, Tout="float64"), [matrix], "complex128")
          for op in ("Angle", "Imag", "Real")),
        *(Case("Complex", lambda x, y: R.Complex(real=x, imag=y, Tout="complex128"), [matrix, one])
          for one in (matrix, row)),
        *(Case("SoftmaxCrossEntropyWithLogits", lambda x, y: R.SoftmaxCrossEntropyWithLogits(
            features=x, labels=y), [long, one])
          for long, one in ((matrix, matrix), (matrix, row), ((2 * 10**6, 2), (1, 2)))),
        *(Case("Pack", lambda x, y, a=a: R.Pack(values=[x, y], axis=a), [matrix, matrix])
          for a in (0, 1, 2)),
        *(Case("Transpose", lambda x, p=p: R.Transpose(x=x, perm=p), [(20, 100, 500)])
          for p in ((0, 2, 1), (1, 0, 2), (2, 1, 0))),
        Case("AddN", lambda x, y: R.AddN(inputs=[x, y] * 5), [matrix, matrix]),
        Case("BiasAdd", lambda x, y: R.BiasAdd(value=x, bias=y), [matrix, (500,)]),
        Case("BroadcastTo", lambda x: R.BroadcastTo(input=x, shape=(3, 2000, 500)), [column]),
        Case("Cast", lambda x: R.Cast(x=x, DstT="float32"), [matrix]),
        Case("Conv2D", lambda x, k: R.Conv2D(input=x, filter=k, strides=[1] * 4, padding="SAME"),
             [(8, 64, 64, 8), (3, 3, 8, 16)], tight=False),
        Case("Einsum", lambda x, y: R.Einsum(inputs=[x, y], equation="ij,ik->kj"),
             [matrix, matrix], tight=False),
        Case("GatherV2", lambda x: R.GatherV2(params=x, indices=[5, 3] * 900, axis=0), [matrix]),
        Case("MatrixBandPart", lambda x: R.MatrixBandPart(input=x, num_lower=-1, num_upper=0),
             [(1000, 1000)]),
        Case("MatrixDiagPartV3",
             lambda x: R.MatrixDiagPartV3(input=x, k=0, padding_value=zero), [(1000, 1000)]),
        Case("MatrixDiagV3", lambda x: R.MatrixDiagV3(
            diagonal=x, k=0, num_rows=-1, num_cols=-1, padding_value=zero), [(1000,)]),
        Case("MatrixSetDiagV3", lambda x, y: R.MatrixSetDiagV3(input=x, diagonal=y, k=0),
             [(1000, 1000), (1000,)]),
        Case("Pad", lambda x: R.Pad(input=x, paddings=[[1, 2], [3, 4]]), [matrix]),
        Case("ReverseV2", lambda x: R.ReverseV2(tensor=x, axis=[0]), [matrix]),
        Case("SelectV2", lambda x, y: R.SelectV2(condition=x > y, t=x, e=y), [matrix, row],
             tight=False),
        Case("Slice", lambda x: R.Slice(input=x, begin=[0, 1], size=[2000, 300]), [matrix]),
        Case("SparseSoftmax", lambda x: R.SparseSoftmax(
            sp_indices=_entries(), sp_values=x, sp_shape=[2000, 500]), [(300_000,)]),
        Case("StridedSlice", lambda x: x[:, ::2], [matrix]),
        Case("StridedSliceGrad", lambda x: R.StridedSliceGrad(
            shape=[2000, 900], begin=[0, 100], end=[0, 600], strides=[1, 1], dy=x,
            begin_mask=1, end_mask=1), [matrix]),
        Case("TensorScatterUpdate", lambda x, y: R.TensorScatterUpdate(
            tensor=x, indices=[[3]], updates=y), [matrix, row]),
        Case("TensorStridedSliceUpdate", lambda x, y: R.TensorStridedSliceUpdate(
            input=x, begin=[3], end=[4], strides=[1], value=y), [matrix, row]),
        Case("Tile", lambda x: R.Tile(input=x, multiples=[1, 500]), [column]),
        Case("TopKV2", lambda x: R.TopKV2(input=x, k=100), [matrix]),
        *(Case(op, lambda x, op=op: getattr(R, op)(
            data=x, segment_ids=[i * 99 % 1_500_000 for i in range(1000)], num_segments=1_500_000),
            [(1000,)]) for op in ("UnsortedSegmentMax", "UnsortedSegmentProd")),
        *(Case("HistogramFixedWidth", lambda x, d=dtype: R.HistogramFixedWidth(
            values=x, value_range=np.array([0, 1], d), nbins=100), [(1_000_000,)], dtype)
          for dtype in ("float32", "float64")),
        Case("UnsortedSegmentSum", lambda x: R.UnsortedSegmentSum(
            data=x, segment_ids=[i % 7 for i in range(2000)], num_segments=7), [matrix]),
    ]  # fmt: skip


def _images(R: Any) -> list[Case]:
    same: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    same3: dict[str, Any] = {"strides": [1] * 5, "padding": "SAME"}
    volumes = [
        ((2, 40, 40, 40, 8), (3, 3, 3, 8, 8)),
        ((16, 16, 16, 16, 4), (3, 3, 3, 4, 16)),
    ]
    blocks = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    batch, halves, channel = (64, 32, 32, 16), (64, 16, 16, 16), (16,)
    sizes = [
        *((batch, (3, 3, 16, 32)), ((4, 200, 200, 8), (5, 5, 8, 8))),
        *(((500, 8, 8, 32), (3, 3, 32, 32)), ((2, 400, 400, 3), (7, 7, 3, 16))),
    ]

    def convolutions(image: tuple[int, ...], kernel: tuple[int, ...]) -> list[Case]:
        made = (*image[:-1], kernel[-1])
        return [
            Case("Conv2D", lambda x, f: R.Conv2D(input=x, filter=f, **same), [image, kernel]),
            Case("Conv2DBackpropFilter", lambda x, g: R.Conv2DBackpropFilter(
                input=x, filter_sizes=list(kernel), out_backprop=g, **same), [image, made]),
            Case("Conv2DBackpropInput", lambda f, g: R.Conv2DBackpropInput(
                input_sizes=list(image), filter=f, out_backprop=g, **same), [kernel, made]),
        ]  # fmt: skip

    def depthwise(image: tuple[int, ...], kernel: tuple[int, ...]) -> list[Case]:
        made = (*image[:-1], kernel[-2] * kernel[-1])
        return [
            Case("DepthwiseConv2dNative", lambda x, f: R.DepthwiseConv2dNative(
                input=x, filter=f, **same), [image, kernel]),
            Case("DepthwiseConv2dNativeBackpropFilter", lambda x, g:
                 R.DepthwiseConv2dNativeBackpropFilter(
                     input=x, filter_sizes=list(kernel), out_backprop=g, **same), [image, made]),
            Case("DepthwiseConv2dNativeBackpropInput", lambda f, g:
                 R.DepthwiseConv2dNativeBackpropInput(
                     input_sizes=list(image), filter=f, out_backprop=g, **same), [kernel, made]),
        ]  # fmt: skip

    cases = [
        *(case._replace(dtype=dtype)
          for s in sizes for dtype in ("float32", "float64") for case in convolutions(*s)),
        # Few enough patches are packed all at once: more than all operands and results.
        *(Case("Conv3D", lambda x, f: R.Conv3D(input=x, filter=f, **same3),
               [(816, 4, 4, 4, channels), (2, 2, 2, channels, 3)], dtype, tight=False)
          for channels, dtype in ((2, "float32"), (5, "float64"))),
        *(Case("Conv3DBackpropFilterV2", lambda x, g, k=k: R.Conv3DBackpropFilterV2(
            input=x, filter_sizes=list(k), out_backprop=g, **same3), [image, (*image[:-1], k[-1])])
          for image, k in volumes),
        *(Case("Conv3DBackpropInputV2", lambda f, g, image=image: R.Conv3DBackpropInputV2(
            input_sizes=list(image), filter=f, out_backprop=g, **same3), [k, (*image[:-1], k[-1])])
          for image, k in volumes),
        # With strides, images have more pixels than places, for each of which a patch is packed.
        Case("Conv3DBackpropInputV2", lambda f, g: R.Conv3DBackpropInputV2(
            input_sizes=[2, 43, 24, 20, 1], filter=f, out_backprop=g,
            strides=[1, 2, 1, 2, 1], padding="VALID"),
             [(3, 4, 1, 1, 3), (2, 21, 21, 10, 3)], tight=False),
        # Large filters of small images, with channels that fill whole vectors or not.
        *(case for s in ((batch, (3, 3, 16, 1)), ((1, 6, 6, 60_001), (3, 3, 60_001, 1)),
                         ((8, 3, 3, 20_000), (7, 7, 20_000, 1)),
                         ((2, 3, 3, 9_001), (5, 5, 9_001, 3)))
          for case in depthwise(*s)),
        # Little is counted but numbers of channels, of rows and of columns.
        Case("FusedBatchNormV2", lambda x, a: R.FusedBatchNormV2(
            x=x, scale=a, offset=a, mean=[], variance=[]),
             [(2, 2, 2, 500_000), (500_000,)], "float32"),
        *(Case(op, lambda x, op=op, size=size: getattr(R, op)(images=x, size=size), [shape])
          for op in ("ResizeArea", "ResizeBicubic", "ResizeBilinear")
          for shape, size in (((1, 2, 2, 1), [1, 500_000]), ((1, 2, 2, 500_000), [1, 1]))),
        # Its products are as large as the gradient of the filter.
        Case("Conv2DBackpropFilter", lambda x, g: R.Conv2DBackpropFilter(
            input=x, filter_sizes=[3, 3, 2, 300_000], out_backprop=g, **same),
             [(5, 4, 4, 2), (5, 4, 4, 300_000)], "float32"),
        Case("MaxPool", lambda x: R.MaxPool(input=x, **blocks), [batch]),
        Case("MaxPoolGrad", lambda x, y, g: R.MaxPoolGrad(
            orig_input=x, orig_output=y, grad=g, **blocks), [batch, halves, halves]),
        *(Case("AvgPool", lambda x, k=k: R.AvgPool(value=x, ksize=k, **same), [shape])
          for shape in (batch, (8, 400, 400, 1)) for k in ([1, 3, 3, 1], [1, 2, 5, 1])),
        *(Case("Conv2D", lambda x, f: R.Conv2D(input=x, filter=f, **same), [image, kernel])
          for image, kernel in (((4, 200, 200, 8), (3, 3, 2, 16)), (batch, (1, 1, 4, 8)))),
        Case("AvgPoolGrad", lambda g: R.AvgPoolGrad(
            orig_input_shape=list(batch), grad=g, **blocks), [halves]),
        Case("ResizeBicubic", lambda x: R.ResizeBicubic(images=x, size=[50, 50]), [batch]),
        Case("ResizeBilinear", lambda x: R.ResizeBilinear(images=x, size=[50, 50]), [batch]),
        Case("ExtractImagePatches", lambda x: R.ExtractImagePatches(
            images=x, ksizes=[1, 3, 3, 1], strides=[1] * 4, rates=[1] * 4, padding="SAME"),
            [batch]),
        Case("FusedBatchNormV2", lambda x, c: R.FusedBatchNormV2(
            x=x, scale=c, offset=c, mean=[], variance=[]), [batch, channel], "float32"),
        Case("FusedBatchNormV2", lambda x, c: R.FusedBatchNormV2(
            x=x, scale=c, offset=c, mean=c, variance=c, is_training=False), [batch, channel],
            "float32"),
        Case("LRNGrad", lambda x, y, z: R.LRNGrad(
            input_grads=x, input_image=y, output_image=z), [batch] * 3, "float32"),
        Case("SpaceToBatchND", lambda x: R.SpaceToBatchND(
            input=x, block_shape=[2, 2], paddings=[[0, 0], [0, 0]]), [batch]),
        Case("CropAndResize", lambda x: R.CropAndResize(
            image=x, boxes=[[0.1, 0.1, 0.9, 0.9]] * 64, box_ind=list(range(64)),
            crop_size=[20, 20]), [batch], "float32"),
    ]  # fmt: skip
    return [case._replace(tight=False) for case in cases]


def measure(group: str, first: int = 0, step: int = 1) -> list[dict[str, Any]]:
    """Run in a fresh process: measure every `step`-th case and evaluate its bound."""
    import tensorflow as tf

    from tf_exla.frontends.tf.device import device
    from tf_exla.frontends.tf.measuring.measure import measured_peak

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    on_gpu = device() == "GPU"
    rows = []
    for case in globals()[group](tf.raw_ops)[first::step]:
        part = {"complex64": "float32", "complex128": "float64"}.get(case.dtype, case.dtype)
        args = [tf.random.uniform(shape, 0.1, 0.9, part) for shape in case.shapes]
        args = [tf.cast(value, case.dtype) for value in args]
        if group == "_linear_algebra":
            n = case.shapes[0][-1]
            # Well conditioned, positive definite where it is square.
            if n == case.shapes[0][-2]:
                args[0] = (
                    args[0]
                    + tf.linalg.matrix_transpose(args[0])
                    + 4 * n * tf.eye(n, dtype=case.dtype)
                )
        fn = tf.function(case.call, autograph=False)
        node = next(
            op
            for op in fn.get_concrete_function(*args).graph.get_operations()
            if op.type == case.op
        )
        inputs, outputs = (
            [Tensor(tuple(t.shape), t.dtype.name, tf.get_static_value(t)) for t in tensors]
            for tensors in (node.inputs, node.outputs)
        )
        attrs = {name: node.get_attr(name) for name in node.node_def.attr}
        rows.append(
            {
                "case": f"{case.op} {case.shapes} {case.dtype} {node.node_def.name}",
                "tight": case.tight,
                "working_set": measured_peak(fn, *args).working_set,
                "operands": sum(a.dtype.size * a.shape.num_elements() for a in args),
                "output": sum(t.dtype.size * t.shape.num_elements() for t in node.outputs),
                **{
                    name: gpu_scratch_bytes(case.op, inputs, outputs, attrs)
                    if on_gpu
                    else scratch_bytes(case.op, inputs, outputs, attrs, threads)
                    for name, threads in (("bound", THREADS), ("bound_of_one_thread", 1))
                },
            }
        )
    return rows


@pytest.mark.parametrize("first", but([1, 2], range(3)))
@pytest.mark.parametrize("group", GROUPS)
def test_bound_holds_and_is_not_needlessly_large(group: str, first: int) -> None:
    """For every third case, as neighbours are alike."""
    rows = run_fresh(measure, group, first, 3)
    assert len(rows) == len(globals()[group](None)[first::3])
    exceeded = [r for r in rows if r["working_set"] > r["output"] + r["bound"] + SLACK]
    assert not exceeded
    # What a bound may waste: half of the scratch, or a fifth of all that the call needs anyway.
    # The scheduler decides how many threads run at a time; on a loaded machine it may be one.
    wasteful = [
        r
        for r in rows
        if r["tight"]
        and min(r["bound"], r["bound_of_one_thread"])
        > max(1.5 * (r["working_set"] - r["output"]), 0.2 * (r["operands"] + r["output"])) + SLACK
    ]
    assert not wasteful


def forwarding() -> list[dict[str, Any]]:
    """Run in a fresh process: is a fresh temporary reused, straight and in a loop body?"""
    import tensorflow as tf

    from tf_exla.frontends.tf.measuring.measure import measured_peak

    R = tf.raw_ops
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    x = tf.random.uniform((500, 1000), 0.1, 0.9, tf.float64)
    row = x[:1]
    named = {
        "AddN": [lambda t: R.AddN(inputs=[t, x, x]), lambda t: R.AddN(inputs=[x, x, t])],
        "BiasAdd": [lambda t: R.BiasAdd(value=t, bias=row[0])],
        "ClipByValue": [lambda t: R.ClipByValue(
            t=t, clip_value_min=row[0, 0], clip_value_max=row[0, 1])],
        "LogSoftmax": [lambda t: R.LogSoftmax(logits=t)],
        "MatrixBandPart": [lambda t: R.MatrixBandPart(input=t, num_lower=-1, num_upper=0)],
        "MatrixSetDiagV3": [lambda t: R.MatrixSetDiagV3(input=t, diagonal=x[:, 0], k=0)],
        "Select": [lambda t: R.Select(condition=x > 0.5, x=t, y=x),
                   lambda t: R.Select(condition=x > 0.5, x=x, y=t)],
        "SelectV2": [lambda t: R.SelectV2(condition=x > 0.5, t=t, e=row),
                     lambda t: R.SelectV2(condition=x > 0.5, t=row, e=t)],
        "Softmax": [lambda t: R.Softmax(logits=t)],
        "TensorStridedSliceUpdate": [lambda t: R.TensorStridedSliceUpdate(
            input=t, begin=[3], end=[4], strides=[1], value=row)],
    }  # fmt: skip
    for op in ("Acos", "Digamma", "Exp", "Lgamma", "Square"):
        named[op] = [lambda t, op=op: getattr(R, op)(x=t)]
    for op in ("AddV2", "Pow", "SquaredDifference"):
        named[op] = [
            lambda t, op=op, other=other: getattr(R, op)(x=t, y=other) for other in (x, row)
        ] + [lambda t, op=op, other=other: getattr(R, op)(x=other, y=t) for other in (x, row)]

    def straight(call: Callable[..., Any]) -> Any:
        return lambda v: tf.reduce_max(call(v + 0.01))

    def looped(call: Callable[..., Any]) -> Any:
        def body(i: Any, largest: Any, v: Any) -> Any:
            fresh = v + tf.cast(i, tf.float64) * 1e-3
            return i + 1, tf.maximum(largest, tf.reduce_max(call(fresh))), v

        zero = tf.constant(0.0, tf.float64)
        return lambda v: tf.while_loop(
            lambda i, *_: i < 3, body, (0, zero, v), parallel_iterations=1
        )[1]

    return [
        {"op": op, "tensors": measured_peak(tf.function(f(call), autograph=False), x).working_set
         / (x.dtype.size * 500_000)}
        for op, calls in named.items() for call in calls for f in (straight, looped)
    ]  # fmt: skip


def test_certain_forwarding_takes_place() -> None:
    rows = run_fresh(forwarding)
    assert {row["op"] for row in rows} <= {name for name, op in TABLE.items() if op.reuses}
    # The condition of a Select is an eighth of a tensor; a copy would make it two.
    assert not [row for row in rows if row["tensors"] > 1.5]


def _compiled(batch: int, rows: int, inner: int, cols: int, dtype: str, shared: bool) -> list[int]:
    import os

    import tensorflow as tf

    import tf_exla
    from tf_exla.frontends.tf.ops.scratch import scratch_bytes

    x, y = tf.ones([batch, rows, inner], dtype), tf.ones([batch, cols, inner], dtype)
    y = y[:1] if shared else y
    product = tf.function(lambda x, y: tf.matmul(x, y, transpose_b=True), jit_compile=True)
    made = product(x, y)
    tensors = [Tensor(tuple(tensor.shape), dtype) for tensor in (x, y, made)]
    threads = os.cpu_count() or 1
    bound = scratch_bytes(
        "BatchMatMulV2", tensors[:2], tensors[2:], {"adj_y": True}, threads, compiled=True
    )
    held = sum(one.shape.num_elements() * one.dtype.size for one in (x, y, made))
    del made
    return [tf_exla.measured_peak(product, x, y), held + bound + 2**20]


@pytest.mark.each_value
@pytest.mark.parametrize("shape", [(16, 200, 430, 258), (8, 18, 459, 459), (16, 6, 151, 926)])
@pytest.mark.parametrize(("dtype", "shared"), [("float64", False), ("float32", True)])
def test_compiled_products_of_a_batch_are_begun_at_once(
    shape: tuple[int, int, int, int], dtype: str, shared: bool
) -> None:
    measured, bound = run_fresh(_compiled, *shape, dtype, shared)
    assert measured <= bound


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 17, 64, 128])
def test_any_number_of_threads(threads: int) -> None:
    tensors = Tensor((4000, 500), "float64"), Tensor((500, 300), "float64")
    out = Tensor((4000, 300), "float64")
    scratch = scratch_bytes("MatMul", tensors, [out], {}, threads)
    # At most both operands packed (one thread: 1 MiB more), or a buffer for each thread.
    operands = 8 * (4000 * 500 + 500 * 300)
    assert 0 < scratch <= operands + 2**20


def test_refuses_no_threads() -> None:
    with pytest.raises(ValueError, match="threads"):
        scratch_bytes("Exp", [], [], {}, 0)


def test_unknown_op_is_taken_to_copy_everything() -> None:
    tensor = Tensor((10, 3), "float32")
    assert scratch_bytes("Novel", [tensor, tensor], [tensor], {}, 2) == 3 * 120


def test_aliases_do_not_forward() -> None:
    assert not [name for name, op in TABLE.items() if op.view == "always" and op.reuses]
