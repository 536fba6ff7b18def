"""Small axes in TensorFlow: gradients, and limits that hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core.test_small_axes import PROGRAMS, SMALL, D, M, N, gaps
from fresh_process import run_fresh
from frontends.tensorflow_namespace import TENSORFLOW
from programs import with_gradients as gradients

import tf_exla
from rewriting.rewritten import check_numbers, random, rewritten
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.traverse import walk


def captured(name: str) -> Callable[..., Any]:
    """Return a program as a function of TensorFlow's tensors."""
    return GRADIENTS.get(name) or (lambda *args: PROGRAMS[name](TENSORFLOW, *args))


def laplace(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-captured("L1")(x, y))


GRADIENTS: dict[str, Callable[..., Any]] = {
    "gradients of Laplace": gradients(lambda x, y: tf.reduce_sum(laplace(x, y))),
    "gradients of a matvec": gradients(
        lambda x, y: tf.reduce_sum(x[:, :1] * tf.matmul(laplace(x, y), y))),
    "gradients of Chebyshev": gradients(
        lambda x, y: tf.reduce_sum(tf.exp(-captured("Chebyshev")(x, y)))),
    "gradients of a norm": gradients(
        lambda x, y: tf.reduce_sum(tf.exp(-tf.reduce_sum(tf.square(gaps(x, y)), -1)))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_numbers(name: str, dtype: str) -> None:
    args = random(N, D, dtype=dtype), random(M, D, dtype=dtype)
    outcome = check_numbers(GRADIENTS[name], *args, families=SMALL)
    assert "unroll" in outcome.names, outcome.reasons
    assert outcome.largest <= max(N * D, N * M)


def test_what_is_no_number_stays_where_it_is() -> None:
    x, y = random(N, D).numpy(), random(M, D).numpy()
    x[3, 2], y[5, 1], y[7] = np.nan, np.inf, -np.inf
    x[4, 1] = np.inf
    laplace = GRADIENTS["gradients of Laplace"]
    outcome = check_numbers(laplace, tf.constant(x), tf.constant(y), families=SMALL)
    assert "unroll" in outcome.names


def _limited(name: str, compiled: bool | None, fraction: float) -> list[float]:
    x, y = random(700, 8, dtype="float32"), random(3001, 8, dtype="float32")
    program = captured(name)
    stock = tf_exla.explain(program, x, y, limit=10**13)
    limit = stock.resident + int(fraction * (stock.projected_peak - stock.resident))
    optimized = tf_exla.optimize(program, limit, jit_compile=compiled)
    report = optimized.report(x, y)
    worst = 0.0
    flat = tf.nest.flatten
    for got, want in zip(flat(optimized(x, y)), flat(program(x, y)), strict=True):
        scale = float(tf.reduce_max(tf.abs(want)))
        worst = max(worst, float(tf.reduce_max(tf.abs(got - want))) / scale)
    measured = tf_exla.measured_peak(optimized, x, y)
    unrolled = any(one.rewrites == "small-axes" for one in report.rewrites)
    return [worst, measured, report.projected_peak, limit, len(report.loops), unrolled]


@pytest.mark.each_value
@pytest.mark.parametrize("compiled", [None, True])
@pytest.mark.parametrize("name", ["gradients of a matvec", "gradients of Chebyshev", "all axes"])
def test_limits_hold(name: str, compiled: bool | None) -> None:
    worst, measured, projected, limit, loops, unrolled = run_fresh(_limited, name, compiled, 0.12)
    assert worst < (1e-3 if compiled else 1e-4)  # sums over 2 million float32, in another order
    assert measured <= projected <= limit
    assert loops
    assert unrolled


def test_no_large_tensor_is_left() -> None:
    outcome = rewritten(GRADIENTS["gradients of a matvec"], random(N, D), random(M, D))
    ops = TensorFlowOps()
    sizes = [t.size for n in walk(outcome.result.graph) if not ops.aliases(n) for t in n.outputs]
    assert max(sizes) <= N * M


def _contracted(k: int, compiled: bool | None, limit: str) -> list[float]:
    x, y = random(500, 200, dtype="float32"), random(3001, 200, dtype="float32")

    def program(x: tf.Tensor, y: tf.Tensor) -> Any:
        distance = captured("L1")(x, y)
        return tf.math.top_k(-distance, k)[0] if k else tf.linalg.matmul(tf.exp(-distance / 200), y)

    optimized = tf_exla.optimize(program, limit, jit_compile=compiled)
    report = optimized.report(x, y)
    want = program(x, y)
    scale = float(tf.reduce_max(tf.abs(want)))
    worst = float(tf.reduce_max(tf.abs(optimized(x, y) - want))) / scale
    measured = tf_exla.measured_peak(optimized, x, y)
    contracted = any(one.rewrites == "small-axes" for one in report.rewrites)
    return [worst, measured, report.projected_peak, report.limit, len(report.loops), contracted]


@pytest.mark.each_value
@pytest.mark.parametrize("compiled", [None, True, False])
@pytest.mark.parametrize(("k", "limit"), [(0, "8MB"), (5, "8MB"), (5, "40MB")])
def test_limits_of_contractions_hold(k: int, limit: str, compiled: bool | None) -> None:
    worst, measured, projected, bound, loops, contracted = run_fresh(
        _contracted, k, compiled, limit
    )
    assert worst < 1e-5
    assert measured <= projected <= bound
    assert loops >= 1
    assert contracted
