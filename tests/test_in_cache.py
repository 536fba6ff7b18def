"""Programs that fit their limit and are split for speed: their results, report and memory."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.model import options

N = 4_001


def distances_summed(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """K(X, X) v of a Matern kernel, whose pointwise ops XLA fuses."""
    squares = tf.reduce_sum(tf.square(x), -1)
    distance = squares[:, None] + squares[None] - 2.0 * tf.matmul(x, x, transpose_b=True)
    r = tf.sqrt(tf.maximum(distance, 1e-12))
    return tf.matmul((1.0 + r + tf.square(r) / 3.0) * tf.exp(-r), v)


def arguments() -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(0)
    return tf.constant(rng.standard_normal((N, 3))), tf.constant(rng.standard_normal((N, 1)))


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the same cache size on all machines, smaller than the matrices."""
    monkeypatch.setattr(options, "cache_bytes", lambda: 32 << 20)


def test_numbers_and_report() -> None:
    args = arguments()
    optimized = tf_exla.optimize(distances_summed, "2TB")
    report = optimized.report(*args)
    assert report.loops
    assert report.projected_peak < report.projected_peak_before / 5
    assert any("in-cache" in note for note in report.notes)
    np.testing.assert_allclose(optimized(*args), distances_summed(*args), rtol=1e-9, atol=1e-8)


def test_switched_off() -> None:
    whole = tf_exla.optimize(distances_summed, "2TB", rewrites={"in-cache": False})
    report = whole.report(*arguments())
    assert not report.loops
    assert not any("in-cache" in note for note in report.notes)


def _measured() -> tuple[int, int]:
    options.cache_bytes = lambda: 32 << 20  # of this process
    args = arguments()
    optimized = tf_exla.optimize(distances_summed, "2TB")
    projected = optimized.report(*args).projected_peak
    return tf_exla.measured_peak(optimized, *args), projected


def test_memory() -> None:
    measured, projected = run_fresh(_measured)
    assert measured <= projected
