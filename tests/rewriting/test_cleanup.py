"""Clean-up: each rewrite on a small function, and what is nearly one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from rewriting.rewritten import check_numbers, only, random, rewritten

CLEANUP = only("cleanup")


def scalar(value: float, dtype: str = "float64") -> tf.Tensor:
    return tf.constant(np.array(value), dtype)  # a Python -0.0 would be TensorFlow's cached 0.0


@pytest.mark.parametrize(
    ("fn", "ops"),
    [
        (lambda x: tf.reduce_mean(x, 1), ["sum", "divide"]),
        (lambda x: tf.reduce_mean(x), ["sum", "divide"]),
        (lambda x: tf.reduce_mean(x, 0, keepdims=True), ["sum", "divide"]),
        (lambda x: tf.transpose(tf.transpose(x)) + x, ["add"]),
        (lambda x: tf.exp(tf.reshape(tf.reshape(x, [-1]), [12, 20])), ["exp"]),
        (lambda x: tf.exp(tf.squeeze(tf.expand_dims(x, 1), 1)), ["exp"]),
        (lambda x: tf.exp(tf.transpose(tf.expand_dims(x, 1), [1, 0, 2])), ["exp"]),
        (lambda x: tf.exp(x * 1.0), ["exp"]),
        (lambda x: tf.exp(x / 1.0), ["exp"]),
        (lambda x: tf.exp(x - 0.0), ["exp"]),
        (lambda x: tf.exp(tf.negative(tf.negative(x))), ["exp"]),
        (lambda x: tf.exp(2.0 * (3.0 * x)), ["multiply", "exp"]),
        (lambda x: tf.exp(-(3.0 * x)), ["multiply", "exp"]),
        (lambda x: tf.matmul(tf.transpose(x), x), ["matmul"]),
        (lambda x: tf.matmul(x, tf.transpose(x)), ["matmul"]),
        (lambda x: tf.reduce_sum(tf.reshape(x, [-1])), ["sum"]),
        (lambda x: tf.reduce_sum(tf.transpose(x)), ["sum"]),
        (lambda x: tf.reduce_sum(tf.transpose(x), keepdims=True), ["sum"]),
        (lambda x: tf.exp(tf.reduce_sum(tf.expand_dims(x, 1), 1)), ["exp"]),
        (lambda x: tf.exp(tf.reduce_max(tf.expand_dims(x, 0), 0, True)), ["exp"]),
        (lambda x: tf.exp(tf.reduce_mean(tf.reshape(x, [1, 12, 1, 20]), [0, 2])), ["exp"]),
        (lambda x: x**2, ["square"]),
        (lambda x: tf.exp(tf.pow(x, tf.constant([[1.0]], x.dtype))), ["exp"]),
    ],
)
def test_becomes(fn: Callable[..., Any], ops: list[str]) -> None:
    outcome = check_numbers(fn, random(12, 20), families=CLEANUP)
    assert outcome.ops == ops
    assert outcome.result.applications


def test_transposed_batches() -> None:
    a, b = random(3, 8, 6), random(3, 8, 5)
    outcome = check_numbers(
        lambda a, b: tf.matmul(tf.transpose(a, [0, 2, 1]), b), a, b, families=CLEANUP
    )
    assert outcome.ops == ["batch_matmul"]
    other = check_numbers(
        lambda a, b: tf.matmul(tf.transpose(a, [1, 2, 0]), b),
        random(6, 4, 3),
        random(3, 6, 5)[:1],
        families=CLEANUP,
    )
    assert other.ops == ["permute_dims", "batch_matmul"]


def test_a_transpose_that_others_read_stays() -> None:
    def fn(x: tf.Tensor) -> Any:
        t = tf.transpose(x)
        return t, tf.matmul(t, x)

    assert check_numbers(fn, random(12, 20), families=CLEANUP).ops == ["permute_dims", "matmul"]


@pytest.mark.parametrize(
    ("fn", "dtype", "reason"),
    [
        (tf.reduce_mean, "float16", "float16 is not rewritten"),
        (tf.reduce_mean, "bfloat16", "bfloat16 is not rewritten"),
        (tf.reduce_mean, "int32", "int32 is not rewritten"),
        (lambda x: x + tf.zeros([], x.dtype), "float64", "adding a zero is not exact"),
        (lambda x: x - scalar(-0.0), "float64", "adding a zero is not exact"),
        (lambda x: scalar(1e200) * (scalar(1e200) * x), "float64", "far from one"),
        (lambda x: scalar(0.0) * (scalar(2.0) * x), "float64", "is zero"),
        (lambda x: scalar(np.inf) * (scalar(2.0) * x), "float64", "far from one"),
    ],
)
def test_refuses(fn: Callable[..., Any], dtype: str, reason: str) -> None:
    x = tf.constant(np.arange(6).reshape(2, 3), dtype)
    outcome = rewritten(fn, x, families=CLEANUP)
    assert not outcome.result.applications
    assert reason in outcome.reasons


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * tf.ones([4, 1, 1], x.dtype),  # another shape
        lambda x: tf.reduce_mean(x[:0]),  # NaN
        lambda x: tf.reduce_sum(tf.transpose(x), 0),
        lambda x: tf.transpose(tf.transpose(x[None], [2, 0, 1]), [2, 0, 1]),
        lambda x: x**3 + tf.abs(x) ** 2.5,
        lambda x: x ** tf.constant([[[2.0]]], x.dtype),
        lambda x: tf.cast(tf.cast(x, tf.float32), tf.float64),
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any]) -> None:
    check_numbers(fn, random(3, 4), families=CLEANUP)


def test_signs_of_zero_stay() -> None:
    x = tf.constant([-0.0, 0.0, 1.0], tf.float64)
    for fn in (
        lambda x: 1 / tf.reduce_sum(x[:, None], 1),
        lambda x: 1 / (x - 0.0),
        lambda x: 1 / (x + scalar(-0.0)),
        lambda x: 1 / (x * 1.0),
    ):
        check_numbers(fn, x, families=CLEANUP)


def test_integers_add_zero() -> None:
    outcome = check_numbers(lambda x: x + 0, tf.constant([1, 2, 3]), families=CLEANUP)
    assert outcome.ops == []


def test_shared_scaled_tensor_stays() -> None:
    def fn(x: tf.Tensor) -> Any:
        y = 2.0 * x
        return y, 3.0 * y

    assert not check_numbers(fn, random(5, 5), families=CLEANUP).result.applications


def test_stateful_nodes_and_bodies() -> None:
    v = tf.Variable(tf.ones([6, 6], tf.float64))

    def fn(x: tf.Tensor) -> tf.Tensor:
        v.assign_add(x * 1.0)
        _, y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.reduce_mean(y) + 2.0 * (0.25 * y)), (0, x)
        )
        return y + v * 1.0

    outcome = rewritten(fn, random(6, 6), families=CLEANUP)
    body = next(node for node in outcome.result.graph.nodes if "while" in node.op).attrs["body"]
    assert "mean" not in [node.op for node in body.nodes]
    assert [n.op for n in outcome.result.graph.nodes if n.stateful] == [
        n.op for n in outcome.before.nodes if n.stateful
    ]
