"""Ops of which some results carry a split axis and others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from programs import normal
from programs_check import difference

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.ir.traverse import walk


def images() -> tf.Tensor:
    return normal(400, 16, 16, 8, dtype="float32")


def normalized(training: bool) -> Callable[..., Any]:
    """The loss and all gradients of batch normalization, by its own moments or by given ones."""

    def function(x: tf.Tensor, scale: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, scale])
            given = {} if training else {"mean": 0.3 * scale, "variance": tf.square(scale)}
            y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
                tf.sin(x), scale, 0.1 * scale, is_training=training, **given
            )
            loss = tf.reduce_sum(tf.square(tf.tanh(y)))
        return loss, mean, variance, *(tf.reduce_mean(g) for g in tape.gradient(loss, [x, scale]))

    return function


def quantized(x: tf.Tensor, scale: tf.Tensor) -> Any:
    """Rounded numbers, and the gradients of the bounds."""
    low, high = -scale[0], scale[1]
    with tf.GradientTape() as tape:
        tape.watch([low, high])
        y = tf.quantization.fake_quant_with_min_max_vars(tf.sin(x), low, high)
        loss = tf.reduce_sum(tf.square(y))
    return loss, tape.gradient(loss, [low, high])


FUNCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "moments that are given": (normalized(training=False), 4),
    "moments of all images": (normalized(training=True), 2),
    "quantized": (quantized, 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_split(name: str) -> None:
    function, factor = FUNCTIONS[name]
    x, scale = images(), tf.linspace(0.5, 1.5, 8)
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, x, scale, limit=10**13).projected_peak_before
    optimized = tf_exla.optimize(stock, int(before / factor))
    assert optimized.report(x, scale).loops
    assert difference(stock(x, scale), optimized(x, scale), 1e-4) <= 1


def test_normalization_keeps_nothing_for_its_gradient() -> None:
    function = tf.function(normalized(training=True), autograph=False)
    concrete = function.get_concrete_function(images(), tf.ones(8))
    ops = {node.op for node in walk(capture(concrete).graph)}
    assert {"FusedBatchNormV2", "FusedBatchNormGradV2"} <= ops
    assert not {"FusedBatchNormV3", "FusedBatchNormGradV3"} & ops


def test_what_is_read_of_it_keeps_it() -> None:
    def function(x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        made = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=scale, mean=[], variance=[])
        return made.y, tf.size(made.reserve_space_3)

    concrete = tf.function(function, autograph=False).get_concrete_function(images(), tf.ones(8))
    assert "FusedBatchNormV3" in {node.op for node in walk(capture(concrete).graph)}


def test_a_result_that_chunks_do_not_make() -> None:
    """Without vectors, the second result of an eigenvalue decomposition is empty."""

    def function(x: tf.Tensor) -> Any:
        matrices = tf.exp(x[:, :, None] * x[:, None, :]) + 4.0 * tf.eye(4, dtype=x.dtype)
        matrices += tf.sin(matrices)
        values, vectors = tf.raw_ops.SelfAdjointEigV2(input=matrices, compute_v=False)
        return tf.reduce_sum(values), tf.shape(vectors), vectors

    x = normal(30000, 4, dtype="float64")
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, x, limit=10**13).projected_peak_before
    with pytest.raises(tf_exla.MemoryLimitError):
        tf_exla.optimize(stock, before // 2)(x)
    optimized = tf_exla.optimize(stock, int(0.8 * before))
    assert optimized.report(x).loops
    assert difference(stock(x)[:2], optimized(x)[:2], 1e-9) <= 1


def test_an_op_without_a_rule_stays_whole() -> None:
    """The report names it; what is around it is split."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = tf.exp(-tf.square(x[:, None] - y[None, :]))
        kept, _ = tf.unique(tf.reduce_sum(d, 1))
        area, *_ = tf.raw_ops.FractionalAvgPool(
            value=tf.reshape(x, [1, 50, 40, 1]), pooling_ratio=[1.0, 1.5, 1.5, 1.0],
            deterministic=True, seed=3, seed2=4,
        )  # fmt: skip
        return tf.reduce_sum(kept), tf.reduce_sum(area)

    x, y = normal(2000), normal(1000, seed=1)
    stock = tf.function(function, autograph=False)
    optimized = tf_exla.optimize(stock, "6MB")
    assert optimized.report(x, y).loops
    assert difference(stock(x, y), optimized(x, y), 1e-9) <= 1
