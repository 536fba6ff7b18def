"""Convolutions without a CPU kernel, which a program compiles in a function of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from fresh_process import run_fresh
from samples import but

import tf_exla


class Case(NamedTuple):
    images: tuple[int, ...]
    filters: tuple[int, ...]
    form: str
    padding: str = "SAME"
    stride: int = 1


CASES = {
    "groups": Case((16, 60, 60, 16), (3, 3, 4, 32), "NHWC"),
    "groups, one axis": Case((64, 701, 12), (5, 4, 24), "NWC"),
    "a group each": Case((16, 61, 47, 8), (3, 3, 1, 8), "NHWC", "VALID"),
    "groups, strided": Case((16, 61, 47, 8), (3, 3, 2, 8), "NHWC", stride=2),
    "groups of volumes": Case((8, 20, 20, 20, 6), (3, 3, 3, 3, 8), "NDHWC"),
    "channels first": Case((16, 16, 60, 60), (3, 3, 16, 8), "NCHW"),
    "channels first, groups": Case((16, 16, 60, 60), (3, 3, 8, 8), "NCHW"),
    "volumes, channels first": Case((8, 4, 20, 20, 20), (3, 3, 3, 4, 8), "NCDHW"),
}


def program(case: Case) -> tuple[Any, list[Any]]:
    """Return a convolution with its gradients, and images and filters."""
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def convolved(images: Any, filters: Any) -> Any:
        return tf.nn.convolution(
            images, filters, strides=case.stride, padding=case.padding, data_format=case.form
        )

    def function(images: Any, filters: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch([images, filters])
            made = tf.reduce_sum(tf.tanh(convolved(images, filters)))
        return [made, *tape.gradient(made, [images, filters])]

    rng = np.random.default_rng(3)
    return function, [
        tf.constant(rng.standard_normal(shape), tf.float32) for shape in (case.images, case.filters)
    ]


def peaks(name: str) -> list[list[float]]:
    """Run in a fresh process: compare numbers with stock, at much memory and at the smallest."""
    import tensorflow as tf

    function, args = program(CASES[name])
    want = tf.function(function, autograph=False)(*args)
    try:
        tf_exla.optimize(function, 1)(*args)
    except tf_exla.MemoryLimitError as error:
        least = error.smallest_limit
    found = []
    for limit in (least, 10**9):
        optimized = tf_exla.optimize(function, limit, strict=True)
        worst = max(
            float(tf.reduce_max(tf.abs(one - two)) / tf.reduce_max(tf.abs(one)))
            for one, two in zip(want, optimized(*args), strict=True)
        )
        report = optimized.report(*args)
        peak = int(tf_exla.measured_peak(optimized, *args, fresh=False))
        found.append([peak, report.projected_peak, limit, worst])
    return found


SELDOM = ("groups", "groups, one axis", "channels first, groups", "volumes, channels first")
"""What takes long; others have groups, strides, volumes and channels first, but not each pair."""


@pytest.mark.parametrize("name", but(SELDOM, CASES))
def test_numbers_within_the_limit(name: str) -> None:
    smallest, ample = run_fresh(peaks, name)
    for peak, projected, limit, worst in (smallest, ample):
        assert peak <= projected <= limit
        assert worst < 1e-4
    assert smallest[1] < 3 * smallest[0]  # the bound of what XLA needs is not needlessly large


def test_unknown_channels_have_a_kernel() -> None:
    """A function whose images have an unknown number of channels, or an unknown rank."""
    import tensorflow as tf

    for shape in ([None, None, None, None, None], None):
        function = tf.function(
            lambda images, filters: tf.nn.conv3d(images, filters, [1] * 5, "SAME"),
            input_signature=[tf.TensorSpec(shape), tf.TensorSpec([2, 2, 2, 3, 4])],
            autograph=False,
        )
        args = tf.random.normal([2, 5, 5, 5, 3]), tf.random.normal([2, 2, 2, 3, 4])
        made = tf_exla.optimize(function, 10**9, strict=True)(*args)
        np.testing.assert_allclose(made, function(*args), rtol=1e-5)


def test_an_empty_batch() -> None:
    """As the last step of an epoch is traced: no data, and no packed operands."""
    import tensorflow as tf

    filters = tf.constant(np.random.default_rng(0).normal(size=(3, 3, 2, 4)))

    def loss(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(filters)
            value = tf.reduce_sum(tf.nn.conv2d(x, filters, 1, "SAME") ** 2)
        return value, tape.gradient(value, filters)

    value, gradient = tf_exla.optimize(loss, "10MB", strict=True)(
        tf.zeros([0, 8, 8, 2], tf.float64)
    )
    assert float(value) == float(tf.reduce_sum(gradient)) == 0
