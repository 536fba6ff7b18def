"""Plans as one XLA module on a GPU: the numbers, and the promise."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gpu.on_gpu import needs_gpu, run_on_gpu
from needs import GPFLOW
from programs_check import ALL, difference

import tf_exla

NAMES = [
    "K(X, X) v", "vᵀ K v and gradients", "kNN L2", "kNN L1", "conjugate gradients", "attention",
    "attention and gradients", "SGPR loss and gradients", "GPflow Matern32 and gradients",
]  # fmt: skip


def compiled(names: list[str]) -> list[dict[str, Any]]:
    """Compare modules with stock TensorFlow, with float32 products of all digits."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return [_compiled(name) for name in names]


def _compiled(name: str) -> dict[str, Any]:
    case = ALL[name]
    function, arguments = case.make()
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak_before
    # An allocator's blocks and cuBLAS's workspace are large beside programs of a hundred MB.
    within = tf_exla.optimize(stock, before // 2, jit_compile=True, strict=True)
    report = within.report(*arguments)
    return {
        "name": name,
        "module": "XLA compiled the plan" in str(report),
        "limit": report.limit,
        "projected": report.projected_peak,
        "measured": int(tf_exla.measured_peak(within, *arguments)),
        "worst": difference(stock(*arguments), within(*arguments), case.rtol),
    }


@GPFLOW
@needs_gpu
def test_modules_hold_and_have_the_numbers() -> None:
    found = run_on_gpu(compiled, NAMES)
    for one in found:
        assert one["measured"] <= one["projected"] <= one["limit"] or not one["module"], one
        assert one["worst"] <= 1, one
    assert sum(one["module"] for one in found) > len(found) / 2


def medians(_: int) -> list[float]:
    """Return the differences of medians of counts in chunks and of a sort."""
    x = tf.random.stateless_normal([2_000_003], [1, 2])
    wanted = tf.sort(2 * x)[1_000_001]
    found = []
    for limit in (60_000_000, 30_000_000):
        median = tf_exla.optimize(lambda x: tf.sort(2 * x)[1_000_001], limit, strict=True)
        found.append(float(abs(median(x) - wanted)))
    return found


@needs_gpu
def test_medians() -> None:
    assert run_on_gpu(medians, 0) == [0, 0]
