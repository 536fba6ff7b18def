"""Records of products, solves, decompositions and Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tf_exla.frontends.tf.ops import xla
from tf_exla.frontends.tf.ops.bounds import sizes
from tf_exla.frontends.tf.ops.memory import cpu, cpu_fft, cpu_products, gpu
from tf_exla.frontends.tf.ops.memory.call import Bound, copy_of_everything
from tf_exla.frontends.tf.ops.record import Op, many, product
from tf_exla.frontends.tf.ops.rules.arithmetic import sparse_matmul
from tf_exla.vocabulary import flops
from tf_exla.vocabulary.rules.builders import Rule
from tf_exla.vocabulary.rules.products import matmul, outputs_or_empty


def fourier(rule: Rule, bound: Bound, **changes: Any) -> Op:
    return Op(rule, cpu=bound, gpu=copy_of_everything, **changes)


OPS: Mapping[str, Op] = {
    "BandedTriangularSolve": Op("... K M, ... M n -> ... M n", cpu=cpu.broadcast_batches),
    **many(Op(cpu=cpu_products.batch_matmul, gpu=gpu.product,
        xla_calls=cpu_products.compiled_products, xla=xla.one_product), """
        BatchMatMul BatchMatMulV2"""),
    "BatchMatMulV3": product(matmul("adj_x", "adj_y", batch="... "), flops=flops.matmul,
        cpu=cpu.broadcast_batches, gpu=gpu.product, xla_calls=cpu_products.compiled_products,
        xla=xla.one_product),
    "Cholesky": Op(cpu=cpu.cholesky, gpu=gpu.cholesky, size="not smaller"),
    "CholeskyGrad": product("... M M, ... M M -> ... M M", flops=flops.cubic(2),
        cpu=cpu.square_matrices(4)),
    "Cross": Op("... A, ... A -> ... A", cpu=cpu.broadcast_blocks),
    "Eig": product(outputs_or_empty(["M", "M M"], "compute_v"), flops=flops.cubic(25),
        cpu=cpu.square_matrices(8)),
    "Einsum": Op(cpu=cpu_products.einsum, gpu=copy_of_everything),
    **many(fourier("... A -> ... A", cpu_fft.complex_fft(1)), "FFT IFFT"),
    **many(fourier("... A B -> ... A B", cpu_fft.complex_fft(2)), "FFT2D IFFT2D"),
    **many(fourier("... A B C -> ... A B C", cpu_fft.complex_fft(3)), "FFT3D IFFT3D"),
    "IRFFT": fourier("... A, _ -> ... B", cpu_fft.real_fft(1, inverse=True), shape_operand=1),
    "IRFFT2D": fourier("... A B, _ -> ... C D", cpu_fft.real_fft(2, inverse=True),
        shape_operand=1),
    "IRFFT3D": fourier("... A B C, _ -> ... D E F", cpu_fft.real_fft(3, inverse=True),
        shape_operand=1),
    "RFFT": fourier("... A, _ -> ... B", cpu_fft.real_fft(1), shape_operand=1),
    "RFFT2D": fourier("... A B, _ -> ... C D", cpu_fft.real_fft(2), shape_operand=1),
    "RFFT3D": fourier("... A B C, _ -> ... D E F", cpu_fft.real_fft(3), shape_operand=1),
    "LogMatrixDeterminant": product("... M M -> ..., ...", flops=flops.cubic(2 / 3),
        cpu=cpu.square_matrices(3), gpu=gpu.lu),
    "Lu": product("... M M -> ... M M, ... M", flops=flops.cubic(2 / 3), gpu=gpu.lu),
    "MatMul": Op(cpu=cpu_products.matmul, gpu=gpu.product, xla="well"),
    "MatrixDeterminant": product("... M M -> ...", flops=flops.cubic(2 / 3),
        cpu=cpu.square_matrices(3), gpu=gpu.lu),
    "MatrixInverse": product("... M M -> ... M M", flops=flops.cubic(2), cpu=cpu.square_matrices(3),
        gpu=gpu.lu, size="not smaller"),
    "MatrixLogarithm": Op("... M M -> ... M M", cpu=cpu.square_matrices(10)),
    "MatrixSolve": product("... M M, ... M n -> ... M n", flops=flops.solve(2 / 3),
        cpu=cpu.matrix_solve, gpu=gpu.matrix_solve),
    "MatrixSolveLs": product("... M N, ... M k, _ -> ... N k", flops=flops.solve(2),
        cpu=cpu.least_squares),
    "MatrixSquareRoot": Op("... M M -> ... M M", cpu=cpu.square_matrices(8)),
    "MatrixTriangularSolve": Op(cpu=cpu.triangular_solve, gpu=gpu.triangular_solve),
    "Qr": product(outputs_or_empty(["M P", "P N"], ""), flops=flops.cubic(4), cpu=cpu.qr),
    "SelfAdjointEigV2": product(outputs_or_empty(["M", "M M"], "compute_v"), flops=flops.cubic(9),
        cpu=cpu.square_matrices(1.2), gpu=gpu.self_adjoint_eig),
    "SparseMatMul": Op(matmul("transpose_a", "transpose_b")),
    "SparseTensorDenseMatMul": Op(sparse_matmul, unordered=True),
    "Svd": product(outputs_or_empty(["P", "M P", "N P"], "compute_uv"), flops=flops.cubic(20),
        cpu=cpu.svd, gpu=gpu.svd),
    "TridiagonalMatMul": Op("... 1 M, ... 1 M, ... 1 M, ... M n -> ... M n",
        bounds=sizes.like(3)),
    "TridiagonalSolve": Op("... D M, ... M n -> ... M n", cpu=cpu.tridiagonal_solve,
        bounds=sizes.like(1)),
}  # fmt: skip
