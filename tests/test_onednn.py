"""Plans with oneDNN, TensorFlow's default on x86, which merges ops before it runs a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from image_programs import IMAGE_CASES
from programs_check import difference

import tf_exla


def convolutions_with_biases() -> tuple[Any, tf.Tensor]:
    """Return a training step whose two branches run at the same time, and its operand."""
    random = np.random.default_rng(0)
    shapes = (3, 3, 1, 16), (16,), (3, 3, 16, 16), (16,), (3, 3, 1, 16), (16,)
    a, b, c, d, e, f = (
        tf.Variable(0.1 * random.normal(size=one), dtype="float32") for one in shapes
    )

    def convolution(x: tf.Tensor, filters: tf.Variable, bias: tf.Variable) -> tf.Tensor:
        return tf.nn.bias_add(tf.nn.conv2d(x, filters, 1, "SAME"), bias)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            branch = convolution(tf.nn.relu(convolution(x, a, b)), c, d)
            other = convolution(tf.sin(x), e, f)
            loss = tf.reduce_mean(tf.nn.max_pool2d(branch * other, 2, 2, "SAME"))
        return loss, tape.gradient(loss, [a, b, c, d, e, f])

    return step, tf.constant(random.normal(size=(40, 28, 28, 1)), tf.float32)


def errors_of_parts() -> list[float]:
    """Return the largest relative error at parts of the peak; oneDNN ends the process if it can."""
    step, x = convolutions_with_biases()
    peak = tf_exla.optimize(step, "10GB").report(x).projected_peak
    want = tf.nest.flatten(tf.function(step)(x))
    errors = []
    for part in (0.7, 0.5, 0.3):
        optimized = tf_exla.optimize(step, int(part * peak), strict=True)
        pairs = zip(tf.nest.flatten(optimized(x)), want, strict=True)
        errors.append(max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs))
    return errors


def errors_of_images() -> dict[str, float]:
    """Return the largest error of each program on images, in multiples of what its test allows."""
    errors = {}
    for case in IMAGE_CASES:
        function, arguments = case.make()
        before = tf_exla.explain(tf.function(function), *arguments, limit="100GB")
        limit = int(before.projected_peak_before / case.factor)
        found = tf_exla.optimize(function, limit, strict=True)(*arguments)
        errors[case.name] = difference(function(*arguments), found, case.rtol)
    return errors


@pytest.mark.thorough
def test_images() -> None:
    found = run_fresh(errors_of_images, env={"TF_ENABLE_ONEDNN_OPTS": "1"}, timeout=600)
    assert max(found.values()) < 1, found


def test_convolutions_with_biases_run() -> None:
    assert max(run_fresh(errors_of_parts, env={"TF_ENABLE_ONEDNN_OPTS": "1"})) < 1e-4


def test_no_sum_with_a_bias_waits_for_what_its_convolution_waits_for() -> None:
    step, x = convolutions_with_biases()
    peak = tf_exla.optimize(step, "10GB").report(x).projected_peak
    waiting = 0
    for part in (0.7, 0.5, 0.3):
        program = tf_exla.optimize(step, int(part * peak), strict=True)._settled((x,), {})
        for graph in _graphs(program.whole().graph):
            for op in graph.get_operations():
                convolution = op.inputs[0].op if op.type == "BiasAdd" else op
                if convolution.type == "Conv2D" and convolution is not op:
                    waiting += bool(convolution.control_inputs)
                    assert set(convolution.control_inputs).isdisjoint(op.control_inputs)
    assert waiting


def _graphs(graph: Any) -> list[Any]:
    inner = [one.graph for one in graph._functions.values() if hasattr(one, "graph")]
    return [graph, *(deeper for one in inner for deeper in _graphs(one))]
