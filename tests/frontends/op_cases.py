"""Cases of every op in the table: operands, attributes, and how the bound rule prints.

An operand is a shape (a tuple: float64 between 0.1 and 0.9), a static value (a list or a number:
int32, as axes and shapes are), or an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tf_exla.frontends.tf.ops.sources import OPS as SOURCES
from tf_exla.frontends.tf.ops.table import KINDS
from tf_exla.ir.graph import Array

Operand = tuple[int, ...] | list[Any] | int | Array


@dataclass(frozen=True)
class Case:
    op: str
    operands: Sequence[Operand]
    rule: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)
    unset: Sequence[int] = ()  # results that the kernel leaves as memory was

    def __str__(self) -> str:
        return f"{self.op}: {self.rule}"


def ints(high: int, *shape: int) -> Array:
    return np.random.default_rng(0).integers(0, high, shape).astype(np.int32)


def bools(*shape: int) -> Array:
    return ints(2, *shape).astype(bool)


def reals(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).uniform(0.1, 0.9, shape)


def complexes(*shape: int) -> Array:
    return reals(*shape) + 1j * reals(*shape)[..., ::-1]


def spd(*shape: int) -> Array:
    """Symmetric positive definite matrices."""
    root = reals(*shape)
    return root @ np.swapaxes(root, -1, -2) + shape[-1] * np.eye(shape[-1])


def number(value: float) -> Array:
    """A scalar that is data."""
    return np.asarray(value, np.float32)


def with_nan(*shape: int) -> Array:
    values = reals(*shape)
    values.flat[1] = np.nan
    return values


F32 = np.float32
ONE, TWO = "... -> ...", "..., ... -> ..."

UNARY_DATA: dict[str, Operand] = {
    "Acosh": 1 + reals(7, 1, 3),
    **dict.fromkeys(["Invert", "PopulationCount"], ints(99, 7, 1, 3)),
    "LogicalNot": bools(7, 1, 3),
    **dict.fromkeys(["Angle", "ComplexAbs", "Conj", "Imag", "Real"], complexes(7, 1, 3)),
    "Bucketize": reals(7, 1, 3),
    "FakeQuantWithMinMaxArgs": reals(7, 1, 3).astype(np.float32),
}
UNARY_ATTRS: dict[str, dict[str, Any]] = {
    "Angle": {"Tout": "float64"},
    "Bucketize": {"boundaries": [0.2, 0.5]},
    "Cast": {"DstT": "bool"},
    "CheckNumerics": {"message": "no"},
    "CheckNumericsV2": {"message": "no"},
    "ComplexAbs": {"Tout": "float64"},
    "EnsureShape": {"shape": (7, None, 3)},
    "Imag": {"Tout": "float64"},
    "PlaceholderWithDefault": {"dtype": "float64", "shape": (7, 1, 3)},
    "Real": {"Tout": "float64"},
}
INT_BINARY = "BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift"
BOOL_BINARY = "LogicalAnd LogicalOr"


def pointwise_cases() -> Iterator[Case]:
    """Cases of the ops that have the rule of their arity."""
    for op, rule in ((name, one.rule) for name, one in KINDS["pointwise"].items()):
        attrs = UNARY_ATTRS.get(op, {})
        if rule == ONE:
            yield Case(op, [UNARY_DATA.get(op, (7, 1, 3))], ONE, attrs)
        elif rule == TWO:
            if op == "FakeQuantWithMinMaxArgsGradient":
                yield Case(
                    op, [6 * reals(7, 1, 3).astype(F32), 9 * reals(7, 1, 3).astype(F32)], TWO
                )
            elif "Grad" in op and op not in ("IgammaGradA", "RandomGammaGrad"):
                yield Case(op, [(7, 1, 3), (7, 1, 3)], TWO)
            elif op == "ApproximateEqual":
                yield Case(op, [(7, 3), (7, 3)], TWO, {"tolerance": 0.2})
            elif op in INT_BINARY.split():
                yield Case(op, [ints(9, 4, 1, 3), ints(9, 7, 1)], TWO)
            elif op in BOOL_BINARY.split():
                yield Case(op, [bools(4, 1, 3), bools(7, 1)], TWO)
            elif op == "Complex":
                yield Case(op, [(4, 1, 3), (7, 1)], TWO, {"Tout": "complex128"})
            elif op == "TruncateMod":
                yield Case(op, [ints(9, 4, 1, 3), 1 + ints(9, 7, 1)], TWO)
            else:
                yield Case(op, [(4, 1, 3), (7, 1)], TWO)
                yield Case(op, [(5, 3), ()], TWO)


SHORT = reals(5, 3).astype(F32)

MORE_POINTWISE = [
    Case("Add", [ints(9, 4, 3), ints(9, 3)], TWO),
    Case("AddN", [(5, 3), (5, 3), (5, 3)], "..., ..., ... -> ..."),
    Case("AddN", [(5, 3)], "... -> ..."),
    Case("AddV2", [reals(5, 3).astype(F32), reals(1, 3).astype(F32)], TWO),
    Case("Betainc", [(5, 3), (5, 3), (5, 3)], "..., ..., ... -> ..."),
    Case("BiasAdd", [(5, 2, 3), (3,)], "... c, c -> ... c", {"data_format": "NHWC"}),
    Case("BiasAdd", [(5, 3, 2, 4), (3,)], "n c ..., c -> n c ...", {"data_format": "NCHW"}),
    Case("BiasAddV1", [(5, 3), (3,)], "... c, c -> ... c"),
    Case("Bitcast", [(5, 3)], "... -> ... A", {"type": "float32"}),
    Case("Bitcast", [reals(5, 2).astype(F32)], "... A -> ...", {"type": "float64"}),
    Case("Bitcast", [(5, 3)], ONE, {"type": "int64"}),
    Case("Cast", [complexes(5, 3)], ONE, {"DstT": "float64"}),
    Case("ClipByValue", [(7, 3), (), ()], "..., ..., ... -> ..."),
    Case("FakeQuantWithMinMaxVars", [SHORT, number(0.2), number(0.7)], "..., _, _ -> ..."),
    Case("FakeQuantWithMinMaxVarsGradient", [SHORT, SHORT, number(0.2), number(0.7)],
         "a b, a b, ,  -> a b, , ; add a b"),
    Case("FakeQuantWithMinMaxVarsPerChannel", [SHORT, 0.1 * SHORT[0], SHORT[1]],
         "... c, c, c -> ... c"),
    Case("FakeQuantWithMinMaxVarsPerChannelGradient", [SHORT, SHORT, 0.1 * SHORT[0], SHORT[1]],
         "a b, a b, b, b -> a b, b, b ; add a"),
    Case("IdentityN", [(5, 3), (3,), ()], "a b, c,  -> a b, c, "),
    Case("Mul", [complexes(5, 1), complexes(3)], TWO),
    Case("Mul", [reals(5, 3).astype(np.float16), reals(3).astype(np.float16)], TWO),
    Case("QuantizeAndDequantizeV2", [(5, 3), (), ()], "A B, _, _ -> A B"),
    Case("QuantizeAndDequantizeV2", [(5, 3), np.asarray(0.2), np.asarray(0.7)], "a b, _, _ -> a b",
         {"range_given": True}),
    Case("QuantizeAndDequantizeV3", [(5, 3), 0.1 * reals(3), 0.5 + reals(3), 6],
         "a B, B, B, _ -> a B", {"axis": 1}),
    Case("QuantizeAndDequantizeV4", [(5, 3), np.asarray(0.2), np.asarray(0.7)], "a b, _, _ -> a b",
         {"range_given": True}),
    Case("Select", [bools(5, 3), (5, 3), (5, 3)], "..., ..., ... -> ..."),
    Case("Select", [bools(5), (5, 3), (5, 3)], "a, a ..., a ... -> a ..."),
    Case("Select", [bools(), (5, 3), (5, 3)], ", ..., ... -> ..."),
    Case("SelectV2", [bools(4, 1, 3), (7, 1), (3,)], "..., ..., ... -> ..."),
    Case("SelectV2", [bools(), (7, 1), (3,)], "..., ..., ... -> ..."),
]  # fmt: skip

REDUCTIONS = [
    Case("All", [reals(5, 3) > [0.05, 0.5, 0.95], [0]], "a b, _ -> b ; and a"),
    Case("Any", [reals(3, 5) > [[0.05], [0.5], [0.95]], [1]], "a b, _ -> a ; or b"),
    Case("ArgMax", [(5, 3), 1], "a B, _ -> a"),
    Case("ArgMin", [(5, 3), -2], "A b, _ -> b"),
    Case("Bincount", [ints(4, 7), 4, np.zeros([0])], "a, _, _ -> B ; add a"),
    Case("Bincount", [ints(4, 7), 4, reals(7)], "a, _, a -> B ; add a"),
    Case("Bincount", [ints(4, 5, 3), 4, reals(5, 3)], "a b, _, a b -> B ; add a b"),
    Case("DenseBincount", [ints(4, 7), 4, np.zeros([0])], "a, _, _ -> B ; add a"),
    Case("DenseBincount", [ints(4), 4, np.zeros([0])], ", _, _ -> B"),
    Case("DenseBincount", [ints(4, 7), 4, reals(7)], "a, _, a -> B ; add a"),
    Case("DenseBincount", [ints(4, 5, 7), 4, reals(5, 7)], "a C, _, a C -> a B"),
    Case("DenseBincount", [ints(4, 7), 4, np.zeros([0])], "A, _, _ -> B", {"binary_output": True}),
    Case("HistogramFixedWidth", [(5, 3), np.asarray([0.2, 0.7]), 4], "a b, _, _ -> B ; add a b"),
    Case("BiasAddGrad", [(5, 2, 3)], "a b c -> c ; add a b"),
    Case("BiasAddGrad", [(5, 3, 2)], "a b c -> b ; add a c", {"data_format": "NCHW"}),
    Case("Cumprod", [(5, 3), -1], "a B, _ -> a B", {"reverse": True}),
    Case("Cumsum", [(5, 3), 0], "A b, _ -> A b", {"exclusive": True}),
    Case("CumulativeLogsumexp", [(5, 3), 0], "A b, _ -> A b"),
    Case("EuclideanNorm", [(5, 3), [1]], "a B, _ -> a"),
    Case("InTopK", [reals(5, 3).astype(F32), ints(3, 5)], "a B, a -> a", {"k": 2}),
    Case("InTopKV2", [reals(5, 3).astype(F32), ints(3, 5), 2], "a B, a, _ -> a"),
    Case("IsotonicRegression", [(5, 4)], "... A -> ... A, ... A", {"output_dtype": "float64"}),
    Case("L2Loss", [(5, 3)], "a b -> ; add a b"),
    Case("LogSoftmax", [(4, 5, 3)], "... A -> ... A"),
    Case("LowerBound", [np.sort(reals(5, 9)), (5, 3)], "a b, a c -> a c ; add b"),
    Case("Max", [ints(99, 5, 3), [0]], "a b, _ -> b ; max a"),
    Case("Max", [with_nan(5, 3), [0]], "a b, _ -> b ; max a"),
    Case("Mean", [(5, 7, 3), [-1, 0]], "A b C, _ -> b"),
    Case("Mean", [(5, 3), [0]], "A b, _ -> 1 b", {"keep_dims": True}),
    Case("Min", [(5, 3), [0, 1]], "a b, _ -> ; min a b"),
    Case("Min", [with_nan(5, 3), [0, 1]], "a b, _ -> ; min a b"),
    Case("NearestNeighbors", [reals(5, 3).astype(F32), reals(7, 3).astype(F32), np.asarray(2)],
         "a D, C D, _ -> a K, a K"),
    Case("NthElement", [(5, 3), 1], "... A, _ -> ..."),
    Case("Prod", [(5, 3), [1]], "a b, _ -> a 1 ; mul b", {"keep_dims": True}),
    Case("Prod", [1 + ints(9, 5, 3), 0], "a b, _ -> b ; mul a"),
    Case("Softmax", [(5, 3)], "... A -> ... A"),
    Case("SoftmaxCrossEntropyWithLogits", [(5, 3), (5, 3)], "a B, a B -> a, a B"),
    Case("SoftmaxCrossEntropyWithLogits", [(5, 3), (1, 3)], "a B, a B -> a, a B"),
    Case("SparseSoftmaxCrossEntropyWithLogits", [(5, 3), ints(3, 5)], "a B, a -> a, a B"),
    Case("Sum", [(5, 7, 3), [-1, 0]], "a b c, _ -> b ; add a c"),
    Case("Sum", [(5, 7, 3), [1]], "a b c, _ -> a 1 c ; add b", {"keep_dims": True}),
    Case("Sum", [(5, 3), np.zeros([0], np.int32)], "a b, _ -> a b"),
    Case("Sum", [(5, 3), np.asarray([1, 0], np.int32)], "a b, _ -> ; add a b"),
    Case("Sum", [complexes(5, 1), 0], "a b, _ -> b ; add a"),
    Case("Sum", [reals(5, 3).astype(F32), 0], "a b, _ -> b ; add a"),
    Case("TopKV2", [(2, 5, 7), 3], "... a, _ -> ... B, ... B ; top_k a"),
    Case("TopKV2", [ints(4, 5, 17), 6], "... a, _ -> ... B, ... B ; top_k a"),  # with ties
    Case("TopKV2", [ints(2, 7), 1], "... a, _ -> ... B, ... B ; top_k a"),
    Case("UpperBound", [np.sort(reals(5, 9)), (5, 3)], "a b, a c -> a c ; add b"),
]  # fmt: skip

PRODUCT = "... i k, ... k j -> ... i j ; add k"
SQUARE = "... M M -> ... M M"
SOLVE = "... M M, ... M n -> ... M n"

ALGEBRA = [
    Case("BandedTriangularSolve", [2 + reals(3, 2, 5), (3, 5, 4)], "... K M, ... M n -> ... M n"),
    Case("BatchMatMul", [(2, 5, 3), (2, 3, 7)], PRODUCT),
    Case("BatchMatMulV2", [(4, 1, 5, 3), (2, 3, 7)], PRODUCT),
    Case("BatchMatMulV2", [ints(9, 2, 5, 3), ints(9, 2, 3, 7)], PRODUCT),
    Case("BatchMatMulV2", [complexes(2, 3, 5), complexes(2, 7, 3)],
         "... k i, ... j k -> ... i j ; add k", {"adj_x": True, "adj_y": True}),
    Case("BatchMatMulV3", [(2, 5, 1), (1, 7)], PRODUCT, {"Tout": "float64"}),
    Case("Cholesky", [spd(3, 2, 5, 5)], SQUARE),
    Case("CholeskyGrad", [np.linalg.cholesky(spd(3, 5, 5)), (3, 5, 5)],
         "... M M, ... M M -> ... M M"),
    Case("Cross", [(5, 3), (5, 3)], "... A, ... A -> ... A"),
    Case("Eig", [spd(5, 3, 3)], "... A B -> ... C, ... D E", {"Tout": "complex128"}),
    Case("Eig", [spd(5, 3, 3)], "... A B -> ... C,",
         {"Tout": "complex128", "compute_v": False}, [1]),
    Case("Einsum", [(5, 3), (3, 7)], "i k, k j -> i j ; add k", {"equation": "ik,kj->ij"}),
    Case("Einsum", [(2, 5, 3), (3, 7)], "... i k, k j -> ... i j ; add k",
         {"equation": "...ik,kj->...ij"}),
    Case("Einsum", [(5, 3, 3)], "i J J -> i ", {"equation": "ijj->i"}),
    Case("Einsum", [(5, 3, 3)], "i J J -> i J", {"equation": "ijj->ij"}),
    Case("Einsum", [(5, 3)], "i j -> j ; add i", {"equation": "ij->j"}),
    Case("Einsum", [(5, 3), (3, 7)], "b i, i a -> b a ; add i", {"equation": "Bi,iA->BA"}),
    Case("Einsum", [(5, 3), (4, 7)], "i k, l j -> i j ; add k l", {"equation": "ik,lj->ij"}),
    Case("FFT", [complexes(5, 4)], "... A -> ... A"),
    Case("FFT2D", [complexes(5, 4, 3)], "... A B -> ... A B"),
    Case("FFT3D", [complexes(5, 4, 3, 2)], "... A B C -> ... A B C"),
    Case("IFFT", [complexes(5, 4)], "... A -> ... A"),
    Case("IFFT2D", [complexes(5, 4, 3)], "... A B -> ... A B"),
    Case("IFFT3D", [complexes(5, 4, 3, 2)], "... A B C -> ... A B C"),
    Case("IRFFT", [complexes(5, 4), [6]], "... A, _ -> ... B", {"Treal": "float64"}),
    Case("IRFFT2D", [complexes(5, 3, 4), [3, 6]], "... A B, _ -> ... C D", {"Treal": "float64"}),
    Case("IRFFT3D", [complexes(5, 3, 2, 4), [3, 2, 6]], "... A B C, _ -> ... D E F",
         {"Treal": "float64"}),
    Case("LogMatrixDeterminant", [spd(5, 3, 3)], "... M M -> ..., ..."),
    Case("Lu", [spd(5, 3, 3)], "... M M -> ... M M, ... M"),
    Case("MatMul", [(5, 3), (3, 7)], "i k, k j -> i j ; add k"),
    Case("MatMul", [(3, 5), (7, 3)], "k i, j k -> i j ; add k",
         {"transpose_a": True, "transpose_b": True}),
    Case("MatMul", [(5, 1), (1, 7)], "i k, k j -> i j ; add k"),
    Case("MatMul", [ints(9, 5, 3), ints(9, 3, 7)], "i k, k j -> i j ; add k"),
    Case("MatMul", [reals(5, 3).astype(F32), reals(3, 7).astype(F32)], "i k, k j -> i j ; add k"),
    Case("MatrixDeterminant", [spd(5, 3, 3)], "... M M -> ..."),
    Case("MatrixInverse", [spd(5, 3, 3)], SQUARE, {"adjoint": True}),
    Case("MatrixLogarithm", [spd(5, 3, 3).astype(complex)], SQUARE),
    Case("MatrixSolve", [spd(5, 3, 3), (5, 3, 7)], SOLVE, {"adjoint": True}),
    Case("MatrixSolveLs", [(5, 7, 3), (5, 7, 4), np.asarray(0.1)],
         "... M N, ... M k, _ -> ... N k"),
    Case("MatrixSquareRoot", [spd(5, 3, 3)], SQUARE),
    Case("MatrixTriangularSolve", [spd(3, 3), (3, 7)], SOLVE),
    Case("MatrixTriangularSolve", [spd(5, 1, 3, 3), (2, 3, 7)], SOLVE,
         {"lower": False, "adjoint": True}),
    Case("MatrixTriangularSolve", [spd(3, 3).astype(F32), reals(3, 1).astype(F32)], SOLVE),
    Case("Qr", [(5, 4, 3)], "... A B -> ... C D, ... E F"),
    Case("Qr", [(5, 4, 3)], "... A B -> ... C D, ... E F", {"full_matrices": True}),
    Case("RFFT", [reals(5, 6).astype(F32), [6]], "... A, _ -> ... B", {"Tcomplex": "complex64"}),
    Case("RFFT2D", [reals(5, 3, 6).astype(F32), [3, 6]], "... A B, _ -> ... C D"),
    Case("RFFT3D", [reals(5, 2, 3, 6).astype(F32), [2, 3, 6]], "... A B C, _ -> ... D E F"),
    Case("SelfAdjointEigV2", [spd(5, 3, 3)], "... A B -> ... C, ... D E", {"compute_v": True}),
    Case("SelfAdjointEigV2", [spd(5, 3, 3)], "... A B -> ... C,", {"compute_v": False}, [1]),
    Case("SparseMatMul", [reals(5, 3).astype(F32), reals(3, 7).astype(F32)],
         "i k, k j -> i j ; add k"),
    Case("SparseTensorDenseMatMul",
         [np.asarray([[2, 1], [2, 0]], np.int64), (2,), np.asarray([4, 3], np.int64), (3, 5)],
         "p A, p, _, C n -> B n ; add p"),
    Case("SparseTensorDenseMatMul",
         [np.asarray([[2, 1], [2, 0]], np.int64), (2,), np.asarray([4, 3], np.int64), (5, 3)],
         "p A, p, _, n C -> B n ; add p", {"adjoint_b": True}),
    Case("Svd", [(5, 4, 3)], "... A B -> ... C, ... D E, ... F G", {"compute_uv": True}),
    Case("Svd", [(5, 4, 3)], "... A B -> ... C, ,", {"compute_uv": False}, [1, 2]),
    Case("TridiagonalMatMul", [(5, 1, 4), (5, 1, 4), (5, 1, 4), (5, 4, 7)],
         "... 1 M, ... 1 M, ... 1 M, ... M n -> ... M n"),
    Case("TridiagonalSolve", [2 + reals(5, 3, 4), (5, 4, 7)], "... D M, ... M n -> ... M n"),
]  # fmt: skip

SOURCE_OPERANDS: dict[str, list[Operand]] = {
    "InvertPermutation": [[2, 0, 1]],
    "LinSpace": [np.asarray(0.0), np.asarray(1.0), 5],
    "Range": [0, 5, 1],
    "Rank": [(5, 3)],
    "Shape": [(5, 3)],
    "ShapeN": [(5, 3), (2,)],
    "Size": [(5, 3)],
    "SobolSample": [3, 5, 0],
}
KEY = np.asarray([1], np.uint64)
COUNTER = np.asarray([2, 3], np.uint64)
SEED = [1, 2]
RANDOM_OPERANDS: dict[str, list[Operand]] = {
    "StatelessParameterizedTruncatedNormal": [
        [5, 3],
        SEED,
        *map(np.asarray, (0.0, 1.0, -1.0, 1.0)),
    ],
    "StatelessMultinomial": [(5, 3), 4, SEED],
    "StatelessRandomBinomial": [[5, 3], SEED, np.asarray(4.0), np.asarray(0.5)],
    "StatelessRandomGammaV2": [[5, 3], SEED, (3,)],
    "StatelessRandomGammaV3": [[5, 3], KEY, COUNTER, 1, (3,)],
    "StatelessRandomPoisson": [[5, 3], SEED, (3,)],
    "StatelessRandomUniformInt": [[5, 3], SEED, 0, 9],
    "StatelessRandomUniformIntV2": [[5, 3], KEY, COUNTER, 1, 0, 9],
    "StatelessShuffle": [(5, 3), KEY, COUNTER, 1],
}
RANDOM_ATTRS: dict[str, dict[str, Any]] = {
    "StatelessMultinomial": {"output_dtype": "int64"},
    "StatelessParameterizedTruncatedNormal": {},
    "StatelessRandomGammaV2": {},
    "StatelessRandomGammaV3": {},
    "StatelessRandomUniformInt": {},
    "StatelessRandomUniformIntV2": {},
    "StatelessShuffle": {},
}


def source_cases() -> Iterator[Case]:
    """Cases of the ops that make their results from no data."""
    for op in SOURCES:
        if op.startswith("Stateless"):
            default = [[5, 3], KEY, COUNTER, 1] if op.endswith("V2") else [[5, 3], SEED]
            attrs = {"dtype": "int32" if "Int" in op else "float64"}
            if op in RANDOM_ATTRS:
                attrs = RANDOM_ATTRS[op]
            yield Case(op, RANDOM_OPERANDS.get(op, default), "", attrs)
        elif op not in ("random_rows", "ReadVariableOp"):
            yield Case(op, SOURCE_OPERANDS[op])
