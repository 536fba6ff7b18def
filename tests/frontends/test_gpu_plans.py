"""Plans for a GPU, made without one: nothing here runs what it plans."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf import op_set
from tf_exla.frontends.tf.calls import notes, request
from tf_exla.frontends.tf.ops.scratch import gpu_scratch_bytes
from tf_exla.ir.graph import Tensor
from tf_exla.ir.rates import CPU
from tf_exla.model.allocator import BLOCKS, EXACT, Allocator
from tf_exla.model.gpu_rates import H100


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "device", lambda: "GPU")
    monkeypatch.setattr(op_set, "visible_device", lambda: "GPU")
    monkeypatch.setattr(op_set, "rounds_factors", lambda dtype: dtype == "float32")


def kernel_product(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    s = tf.reduce_sum(tf.square(x), -1)
    K = tf.exp(-0.5 * (s[:, None] + s[None] - 2 * tf.matmul(x, x, transpose_b=True)))
    return tf.matmul(K, v), tf.reduce_sum(K, 1)


def arguments(dtype: tf.DType) -> list[tf.TensorSpec]:
    return [tf.TensorSpec([30_000, 10], dtype), tf.TensorSpec([30_000, 1], dtype)]


def families(dtype: tf.DType) -> set[str]:
    report = tf_exla.explain(kernel_product, *arguments(dtype), limit="1GB")
    return {one.rewrites for one in report.rewrites}


def test_plans_are_compared_by_the_rates_of_a_gpu(gpu: None) -> None:
    assert op_set.TensorFlowOps().rates() == H100
    assert op_set.TensorFlowOps(device="CPU").rates() == CPU
    given = arguments(tf.float64)
    curve = tf_exla.explain(kernel_product, *given, limit="1GB").curve(3)
    # 30,000 x 30,000 float64, some times, at 3 TB/s: milliseconds, not seconds.
    assert 1e-3 < curve.stock_seconds < 0.1


def test_no_sum_becomes_a_product_that_rounds(gpu: None) -> None:
    assert {"rank-one-terms", "one-pass"} <= families(tf.float64)
    assert not {"rank-one-terms", "one-pass"} & families(tf.float32)


def test_sums_become_products_on_a_cpu() -> None:
    assert {"rank-one-terms", "one-pass"} <= families(tf.float32)


def test_says_that_xla_is_faster(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "device", lambda: "GPU")
    given = arguments(tf.float64)
    split, whole = (tf_exla.optimize(kernel_product, limit) for limit in ("1GB", "100GB"))
    assert "jit_compile=True" in split.report(*given).details()
    assert "jit_compile=True" not in whole.report(*given).details()


def test_says_that_products_round(gpu: None) -> None:
    optimized = tf_exla.optimize(tf.function(kernel_product), "1GB")
    assert "TF32" in optimized.report(*arguments(tf.float32)).details()
    assert "TF32" not in optimized.report(*arguments(tf.float64)).details()


def test_iterations_run_one_after_the_other_in_large_chunks(gpu: None) -> None:
    def solves(x: tf.Tensor) -> tf.Tensor:
        L = tf.linalg.cholesky(tf.eye(50, dtype=tf.float64) + 0.01)
        z = tf.linspace(tf.constant(0.0, tf.float64), 1.0, 50)
        return tf.reduce_sum(tf.linalg.triangular_solve(L, tf.exp(z[:, None] * x[None])), 1)

    report = tf_exla.explain(solves, tf.TensorSpec([4_000_000], tf.float64), limit="3GB")
    assert report.loops
    assert all(loop.parallel == 1 for loop in report.loops)
    assert all(50 * 8 * loop.chunk > 100 << 20 for loop in report.loops)


def test_kernels_of_a_gpu_count_with_what_they_allocate() -> None:
    def scratch(op: str, shape: tuple[int, ...], *more: tuple[int, ...]) -> int:
        made = [Tensor(one, "float64") for one in (more or (shape,))]
        return gpu_scratch_bytes(op, [Tensor(shape, "float64")], made, {})

    size = 2000 * 500 * 8
    assert scratch("Exp", (2000, 500)) < 1000
    assert scratch("Softmax", (2000, 500)) >= 2 * size
    # Short rows and a large k are sorted: 28 bytes for each element, measured.
    assert scratch("TopKV2", (1000, 20_000), (1000, 100), (1000, 100)) >= 560_000_255
    assert scratch("TopKV2", (1000, 20_000), (1000, 10), (1000, 10)) < 1000
    assert scratch("TopKV2", (100, 1000), (100, 2), (100, 2)) >= 2_800_383
    assert scratch("SelfAdjointEigV2", (1000, 1000), (1000,), (1000, 1000)) >= 41_279_900


def test_xla_keeps_a_product_beside_what_is_made_of_it(gpu: None) -> None:
    """As measured: of `exp(-(a b)²) c` two tensors of the size of a b are alive on a GPU."""

    def function(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.exp(-tf.square(tf.matmul(a, b, transpose_b=True))), c)

    sizes = (997, 3), (100_000, 3), (100_000, 3)
    given = [tf.TensorSpec(size, tf.float64) for size in sizes]
    report = tf_exla.optimize(function, "100MB", jit_compile=True).report(*given)
    (loop,) = report.loops
    assert report.working_set >= 2 * 997 * 8 * loop.chunk


@pytest.mark.parametrize("allocator", [BLOCKS, EXACT])
def test_room_is_what_may_be_asked_for(allocator: Allocator) -> None:
    for budget in (0, 1, 2, 3, 7, 1000, 10**6 + 1, 503_316_480, 503_316_481, 10**9, 10**11):
        room = allocator.room(budget)
        assert allocator.taken(room) <= budget < allocator.taken(room + 1)


def test_room_for_whole_blocks_counts(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments(tf.float64)
    blocks = tf_exla.optimize(kernel_product, "1GB").report(*given)
    monkeypatch.setenv("TF_GPU_ALLOCATOR", "cuda_malloc_async")
    exact = tf_exla.optimize(kernel_product, "1GB").report(*given)
    assert blocks.projected_peak <= 10**9
    assert exact.projected_peak <= 10**9
    (loop, *_), (other, *_) = blocks.loops, exact.loops
    assert loop.chunk <= other.chunk
    assert blocks.working_set >= 8 * loop.chunk**2 + 100 * 2**20

    monkeypatch.delenv("TF_GPU_ALLOCATOR")
    with pytest.raises(tf_exla.MemoryLimitError) as caught:
        tf_exla.explain(kernel_product, *given, limit=1)
    smallest = caught.value.smallest_limit
    assert tf_exla.explain(kernel_product, *given, limit=smallest).projected_peak <= smallest
