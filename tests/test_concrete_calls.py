"""Concrete functions that are called hold the limit: signatures of models, frozen ones."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

import tf_exla

X = tf.random.stateless_normal([1501, 8], [1, 2], dtype=tf.float64)


class Model(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: Any = None
        self.w = tf.Variable(tf.random.stateless_normal([8, 1000], [3, 4], dtype=tf.float64))

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float64)])
    def shares(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"shares": tf.reduce_sum(tf.nn.softmax(x @ self.w), 0)}


def concrete(model: Model, folder: Path) -> Any:
    return model.shares.get_concrete_function()


def of_one_size(model: Model, folder: Path) -> Any:
    return model.shares.get_concrete_function(tf.TensorSpec(X.shape, X.dtype))


def signature(model: Model, folder: Path) -> Any:
    tf.saved_model.save(model, str(folder), signatures=model.shares)
    model.loaded = tf.saved_model.load(str(folder))  # signatures do not keep variables alive
    return model.loaded.signatures["serving_default"]


def frozen(model: Model, folder: Path) -> Any:
    made = model.shares.get_concrete_function(tf.TensorSpec(X.shape, X.dtype))
    return convert_to_constants.convert_variables_to_constants_v2(made)


def numbers(found: Any) -> Any:
    return tf.nest.flatten(found)[0].numpy()


@pytest.mark.parametrize(
    "make", [concrete, of_one_size, signature, frozen], ids=lambda one: one.__name__
)
def test_concrete_functions_hold_the_limit(
    make: Callable[[Model, Path], Any], tmp_path: Path
) -> None:
    model = Model()
    function = make(model, tmp_path)
    call = (lambda: function(x=X)) if make is signature else (lambda: function(X))
    wanted = numbers(call())
    limited = tf_exla.limit(2_900_000, strict=True)
    with limited:
        np.testing.assert_allclose(numbers(call()), wanted, rtol=1e-12)
        *_, report = limited.reports()
        assert report.loops
        assert report.projected_peak <= report.limit < report.projected_peak_before
    with tf_exla.limit("100kB"), pytest.raises(tf_exla.MemoryLimitError):
        call()


def test_gradients() -> None:
    model = Model()
    function = model.shares.get_concrete_function()

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.nest.flatten(function(X))[0] ** 2)
        return tape.gradient(value, model.w).numpy()

    wanted = gradient()
    with tf_exla.limit("20MB", strict=True):
        np.testing.assert_allclose(gradient(), wanted, rtol=1e-9, atol=1e-12)


def test_a_function_that_is_dropped_is_freed() -> None:
    with tf_exla.limit("12.3MB"):
        function = tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([3]))
        assert numbers(function(tf.ones([3]))).tolist() == [2, 2, 2]
        known = weakref.ref(function)
        del function
        gc.collect()
        assert known() is None


def test_reports_leave_out_what_was_refused() -> None:
    small = tf.function(lambda x: tf.reduce_sum(tf.exp(x)))
    model = Model()
    with tf_exla.limit("1.7MB") as limited:
        with pytest.raises(tf_exla.MemoryLimitError):
            model.shares(tf.tile(X, [40, 1]))
        small(X)
        assert [report.function for report in limited.reports()] == ["<lambda>"]
