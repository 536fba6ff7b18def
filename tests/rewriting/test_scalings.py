"""Scalings leave tensors whose readers all absorb them; readers of one matrix are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from rewriting.rewritten import QUIET, Outcome, check_numbers, only, random

SCALINGS = only("scalings", "cleanup")
BOTH = only("scalings", "one-pass", "chains", "cleanup")
N, M = 400, 300


def total(x: tf.Tensor, axis: Any = None) -> tf.Tensor:
    return tf.reduce_sum(x, axis)


def large(outcome: Outcome) -> list[str]:
    """Return the ops that make something as large as the matrix, in order."""
    return [
        node.op
        for node in outcome.result.graph.nodes
        for tensor in node.outputs
        if tensor.size >= N * M and node.op not in QUIET
    ]


@pytest.mark.parametrize(
    ("fn", "left"),
    [
        # all readers absorb a scalar, a row, a column
        (lambda a, b, c, r: (total(t := 2.0 * tf.exp(a), 0), total(t, 1), t @ r[:, None]), ["exp"]),
        (lambda a, b, c, r: (total(t := tf.exp(a) / r, 0), t @ r[:, None]), ["exp"]),
        (lambda a, b, c, r: (total(t := c[:, None] * tf.exp(a), 0), total(t, 1)), ["exp"]),
        (lambda a, b, c, r: (total(t := -tf.exp(a), 0), total(t, 1), total(t)), ["exp"]),
        # through an elementwise product, which is shared
        (
            lambda a, b, c, r: (total((a / r) * tf.exp(a), 0), total((2.0 * a / r) * tf.exp(a), 1)),
            ["exp", "multiply"],
        ),
        (lambda a, b, c, r: (total(t := (2.0 * a) / (1.0 + a * a), 0), t @ r[:, None]),
         ["multiply", "add", "divide"]),
        # an outer product is a row and a column
        (
            lambda a, b, c, r: (
                total(t := tf.exp(a) * (c[:, None] @ r[None]), 0),
                total(t, 1),
                tf.matmul(t, c[:, None], transpose_a=True),
            ),
            ["exp"],
        ),
        (
            lambda a, b, c, r: total(tf.exp(a) * tf.transpose(3.0 * (r[:, None] @ c[None])), 1),
            ["exp"],
        ),
        # transposed on the way
        (lambda a, b, c, r: tf.transpose(2.0 * tf.exp(a) / r) @ c[:, None], ["exp"]),
        # two scalings in a row, whoever reads them
        (lambda a, b, c, r: 2.0 * tf.exp(a) / r, ["exp", "multiply"]),
        (
            lambda a, b, c, r: total(r) * (c[:, None] * (tf.exp(a) / c[:, None])),
            ["exp", "multiply"],
        ),
        (lambda a, b, c, r: tf.exp(a) / total(r) / r, ["exp", "multiply"]),
        (lambda a, b, c, r: tf.exp(a) / r / tf.square(r), ["exp", "divide"]),
    ],
)  # fmt: skip
def test_one_large_tensor_less(fn: Callable[..., Any], left: list[str]) -> None:
    args = random(N, M), random(M, N), random(N) + 5.0, random(M) + 5.0
    outcome = check_numbers(fn, *args, families=SCALINGS)
    assert large(outcome) == left


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, b, c, r: (total(t := 2.0 * a, 0), t),  # an output
        lambda a, b, c, r: (total(t := 2.0 * a, 0), tf.sin(t)),  # a reader that needs it
        lambda a, b, c, r: (2.0 * a) @ b,  # nothing small
        lambda a, b, c, r: tf.reduce_max(c[:, None] * a, 1),
        lambda a, b, c, r: total(0.0 * a, 0),  # a static zero may hide what is not
        lambda a, b, c, r: total((tf.exp(a) * a), 0),
        lambda a, b, c, r: total(2.0 / a, 0),
        lambda a, b, c, r: (tf.exp(a) * (a @ b @ a), total(a)),  # no outer product
        lambda a, b, c, r: tf.matmul(t := 2.0 * a, t, transpose_b=True),
        lambda a, b, c, r: r * (c[:, None] * tf.exp(a)),  # a row and a column
        lambda a, b, c, r: (t := 2.0 * tf.exp(a), t / r),
    ],
)
def test_near_misses_keep_what_is_large(fn: Callable[..., Any]) -> None:
    args = random(N, M), random(M, N), random(N), random(M)
    outcome = check_numbers(fn, *args, families=SCALINGS)
    assert large(outcome) == [
        node.op
        for node in outcome.before.nodes
        if node.output.size >= N * M and node.op not in QUIET
    ]


def test_batches() -> None:
    def fn(a: tf.Tensor, c: tf.Tensor) -> Any:
        t = (2.0 * tf.exp(a)) * c
        return total(t, -1), tf.matmul(t, c, transpose_a=True), total(t, [1, 2])

    outcome = check_numbers(fn, random(3, N, M), random(3, N, 1), families=SCALINGS)
    assert large(outcome) == ["exp"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_a_kernel_read_it_twice(dtype: str) -> None:
    args = random(N, 3, dtype=dtype), random(N, 1, dtype=dtype), random(N, 2, dtype=dtype)[:, 1:]
    with gpflow.config.as_context(gpflow.config.Config(float=tf.as_dtype(dtype).as_numpy_dtype)):
        kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.2, 0.7])

        def gradients(x: tf.Tensor, v: tf.Tensor, w: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x, v])
                loss = tf.reduce_sum(w * (kernel(x) @ v))
            return loss, tape.gradient(loss, [x, v, *kernel.trainable_variables])

        outcome = check_numbers(gradients, *args)
    assert large(outcome) == ["matmul", "exp"]
    readers = [n for n in outcome.result.graph.nodes if any(t.size >= N * N for t in n.inputs)]
    assert [node.op for node in readers] == ["exp", "matmul", "matmul"]


def test_random_gradients_of_scalings() -> None:
    """Scalings and elementwise products in random order, read by sums and products."""
    for seed in range(30):

        def fn(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor, r: tf.Tensor) -> Any:
            rng = np.random.default_rng(seed)  # noqa: B023
            made = [a, b, tf.cos(a)]
            for _ in range(8):
                x, y = (made[int(rng.integers(len(made)))] for _ in range(2))
                made.append(
                    [
                        lambda: x * y,  # noqa: B023
                        lambda: x / (2.0 + tf.cos(y)),  # noqa: B023
                        lambda: -x,  # noqa: B023
                        lambda: 0.5 * x,  # noqa: B023
                        lambda: x / r,  # noqa: B023
                        lambda: c[:, None] * x,  # noqa: B023
                        lambda: x * (c[:, None] @ r[None]),  # noqa: B023
                        lambda: tf.transpose(tf.transpose(x) * r[:, None]),  # noqa: B023
                    ][int(rng.integers(8))]()
                )
            readers: list[Callable[[tf.Tensor], tf.Tensor]] = [
                lambda x: total(x, 0),
                lambda x: total(x, 1),
                lambda x: total(x),
                lambda x: x @ r[:, None],
                lambda x: tf.matmul(x, c[:, None], transpose_a=True),
                lambda x: x @ tf.stack([r, r * r], 1),
                tf.transpose,
            ]
            return [
                readers[int(rng.integers(7))](made[int(rng.integers(3, len(made)))])
                for _ in range(6)
            ]

        args = random(N, M), random(N, M, seed=1), random(N), random(M) + 5.0
        check_numbers(fn, *args, families=BOTH)


# Readers of one large matrix.

ONE_PASS = only("one-pass", "cleanup")


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, c, r: (a @ r, total(a, 1)),
        lambda a, c, r: (a @ r, a @ r[:, :2] * 2.0, total(a, -1)[:, None]),
        lambda a, c, r: (tf.matmul(a, c, transpose_a=True), total(a, 0)),
        lambda a, c, r: (total(a, 0), tf.matmul(c, a, transpose_a=True)),
        lambda a, c, r: (
            tf.matmul(r, a, transpose_a=True, transpose_b=True),
            tf.matmul(r[:, :1], a, transpose_a=True, transpose_b=True),
        ),
    ],
)
def test_one_product_reads_the_matrix(fn: Callable[..., Any]) -> None:
    args = random(N, M), random(N, 3), random(M, 3)
    outcome = check_numbers(fn, *args, families=ONE_PASS)
    assert [n.op for n in outcome.result.graph.nodes if outcome.before.inputs[0] in n.inputs] == [
        "matmul"
    ]


def test_batches_of_readers() -> None:
    outcome = check_numbers(
        lambda a, r: (a @ r, total(a, -1), tf.matmul(r, a, transpose_a=True, transpose_b=True)),
        random(2, N, M),
        random(2, M, 3),
        families=ONE_PASS,
    )
    assert outcome.ops.count("batch_matmul") == 1
    assert "sum" not in outcome.ops


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda a, c, r: a @ (tf.transpose(a) @ (a @ r)), "waits for the result"),
        (lambda a, c, r: (a @ r, a @ tf.cos(tf.matmul(a, c, transpose_a=True))), "waits for"),
        (lambda a, c, r: (a @ tf.tile(r, [1, 30]), a @ tf.sin(tf.tile(r, [1, 30]))), "not small"),
        (lambda a, c, r: (a[:20] @ r, total(a[:20], 1)), "less"),
        (lambda a, c, r: (tf.exp(a[:90, :90]) @ r[:90], total(tf.exp(a[:90, :90]), 1)), "less"),
    ],
)
def test_readers_stay_apart(fn: Callable[..., Any], reason: str) -> None:
    args = random(N, M), random(N, 3), random(M, 3)
    outcome = check_numbers(fn, *args, families=ONE_PASS)
    assert "one-product" not in outcome.names
    assert reason in outcome.reasons


def test_sums_over_different_axes_stay_apart() -> None:
    outcome = check_numbers(lambda a: (total(a, 0), total(a, 1)), random(N, M), families=ONE_PASS)
    assert not outcome.result.applications
