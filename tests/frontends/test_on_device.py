"""Positions of int32 stay on a GPU; here its graphs run on the CPU, in place as there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf.restore import on_device, writing

X = np.random.default_rng(0).normal(size=(3001, 7)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(211, 7)).astype(np.float32)


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (on_device, writing):
        monkeypatch.setattr(module, "device", lambda: "GPU")


def neighbours(x: tf.Tensor, y: tf.Tensor) -> Any:
    return tf.math.top_k(-tf.reduce_sum(tf.abs(y[:, None] - x[None]), -1), 5)


def nearest(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    distance = tf.reduce_sum(tf.abs(y[:, None] - x[None]), -1)
    return tf.argmin(distance, 1, output_type=tf.int32)


def numbers_of_rows(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    near = tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1) < 2
    return tf.reduce_sum(tf.cast(near, tf.int32), 1)


@pytest.mark.parametrize("function", [neighbours, nearest, numbers_of_rows])
@pytest.mark.parametrize("limit", [1_300_000, 2_500_000])
def test_numbers(function: Any, limit: int) -> None:
    x, y = tf.constant(X), tf.constant(Y)
    optimized = tf_exla.optimize(function, limit, strict=True)
    report = optimized.report(x, y)
    assert report.loops
    wanted = tf.nest.flatten(tf.function(function)(x, y))
    for found, one in zip(tf.nest.flatten(optimized(x, y)), wanted, strict=True):
        assert found.dtype == one.dtype
        np.testing.assert_array_equal(found, one)
    measured = tf_exla.measured_peak(optimized, x, y, fresh=False)
    assert measured.working_set <= report.projected_peak + 1_000_000


@pytest.mark.parametrize("function", [neighbours, nearest, numbers_of_rows])
def test_no_large_integers_on_the_host(function: Any) -> None:
    x, y = tf.constant(X), tf.constant(Y)
    optimized = tf_exla.optimize(function, 1_300_000, strict=True)
    graph = optimized.get_concrete_function(x, y).graph.as_graph_def()
    moved = ("AddV2", "ConcatV2", "TensorStridedSliceUpdate", "Reshape")
    for made in graph.library.function:
        for node in made.node_def:
            if node.op in moved and node.attr["T"].type == tf.int32.as_datatype_enum:
                shapes = node.attr["_output_shapes"].list.shape
                assert all(one.dim[0].size < 10 for one in shapes if one.dim), node
            if node.name.startswith("While"):  # not a loop of TensorFlow's, over rows with NaN
                carried = zip(
                    node.attr["T"].list.type, node.attr["output_shapes"].list.shape, strict=True
                )
                assert all(not shape.dim for kind, shape in carried if kind == tf.int32), node
