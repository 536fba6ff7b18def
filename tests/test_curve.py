"""`explain(...).curve()` of a GPflow model, and without keeping arguments alive."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla


def sgpr(n: int = 4001, m: int = 50) -> Any:
    """Return a function of the loss of an SGPR and its gradients."""
    gpflow = pytest.importorskip("gpflow")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    Y = np.sin(X[:, :1])
    kernel = gpflow.kernels.Matern32()
    model = gpflow.models.SGPR((X, Y), kernel, inducing_variable=X[:m].copy())
    variables = model.trainable_variables

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, variables)

    return step


def test_the_curve_of_a_gaussian_process() -> None:
    step = sgpr()
    curve = tf_exla.explain(step).curve(4)
    smallest = curve.points[0]
    assert smallest.limit < curve.stock_peak / 4
    assert smallest.loops
    for point in curve.points:
        assert point.projected_peak <= point.limit
        planned = tf_exla.explain(step, limit=point.limit)
        assert planned.projected_peak_before == curve.stock_peak
    for before, after in pairwise(curve.points):
        assert after.seconds <= before.seconds
    assert curve.knee in curve.points
    with pytest.raises(tf_exla.MemoryLimitError) as caught:
        tf_exla.explain(step, limit=smallest.limit - 1)
    assert caught.value.smallest_limit == smallest.limit


def test_a_report_does_not_hold_what_it_was_asked_about() -> None:
    x = tf.random.stateless_normal([2000, 3], (0, 0))
    held = weakref.ref(x)
    report = tf_exla.explain(lambda x: tf.reduce_sum(tf.exp(x @ tf.transpose(x))), x, limit="4MB")
    del x
    gc.collect()
    assert held() is None
    assert report.curve(2).points
