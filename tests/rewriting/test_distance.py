"""The naive distance in all its spellings, and what is nearly one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from rewriting.rewritten import check_numbers, only, random, rewritten, run
from tf_exla.rewrite import DEFAULTS

DISTANCE = only("naive-distance", "cleanup")
N, M, D = 200, 150, 5


def gaps(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x[..., :, None, :] - y[..., None, :, :]


def t(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x)


SPELLINGS: list[Callable[..., Any]] = [
    lambda x, y: tf.reduce_sum(tf.square(gaps(x, y)), -1),
    lambda x, y: tf.reduce_sum(gaps(x, y) ** 2, -1),
    lambda x, y: tf.reduce_sum((d := gaps(x, y)) * d, -1),
    lambda x, y: tf.reduce_sum(tf.math.squared_difference(x[:, None], y[None]), 2),
    lambda x, y: tf.reduce_sum(tf.math.squared_difference(y[None], x[:, None]), 2),
    lambda x, y: tf.reduce_sum(tf.square(y[None] - x[:, None]), -1),
    lambda x, y: tf.reduce_sum(tf.square(x[None] - y[:, None]), -1),
    lambda x, y: tf.reduce_sum(tf.square(x[:, None] + y[None]), -1),
    lambda x, y: tf.reduce_sum(tf.square(x[:, None] - y), -1, keepdims=True),
    lambda x, y: tf.reduce_sum(
        tf.square(tf.transpose(x)[:, :, None] - tf.transpose(y)[:, None]), 0
    ),
    lambda x, y: tf.reduce_sum(tf.square(x[:, :, None] - t(y)[None]), 1),
    lambda x, y: tf.sqrt(tf.reduce_sum(tf.square(gaps(x, y)), -1)),
    lambda x, y: tf.norm(gaps(x, y), axis=-1),
    lambda x, y: tf.reduce_sum(tf.square(gpflow.utilities.ops.difference_matrix(x, y)), -1),
    lambda x, y: tf.exp(-0.5 * tf.reduce_sum(tf.square(gaps(x, y) / 0.3), -1)),
    lambda x, y: tf.reduce_sum(3.0 * tf.square(2.0 * gaps(x, y)), -1),
    lambda x, y: tf.reduce_mean(tf.square(gaps(x, y)), -1),
    lambda x, y: tf.reduce_sum(tf.square(gaps(x, y) / tf.exp(y[0])), -1),
    lambda x, y: tf.reduce_sum(tf.square(gaps(x, y) * tf.exp(y[0])), -1),
    lambda x, y: tf.reduce_sum(tf.exp(y[0]) * tf.square(gaps(x, y)), -1),
    lambda x, y: tf.reduce_sum(tf.square(x[:20, None, None] - tf.stack([y, y + 1])), -1),
    lambda x, y: tf.reduce_sum(tf.square(gaps(x[None], y[None])), -1),
]


@pytest.mark.parametrize("fn", SPELLINGS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spellings(fn: Callable[..., Any], dtype: str) -> None:
    outcome = check_numbers(
        fn, random(N, D, dtype=dtype), random(M, D, dtype=dtype), families=DISTANCE
    )
    assert outcome.names.count("naive-distance") == 1
    assert outcome.largest <= N * M


def test_batches() -> None:
    fn = SPELLINGS[0]
    outcome = check_numbers(fn, random(2, N, D), random(2, M, D), families=DISTANCE)
    assert "naive-distance" in outcome.names


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda x, y: tf.reduce_sum(tf.square(x - y), -1), [(9, 5), (9, 5)], "are no batch"),
        (lambda x, y: tf.reduce_sum(tf.square(x - y), -1), [(9, 1, 5), (1, 8, 1)], "is broadcast"),
        (
            lambda x, y: tf.reduce_sum(tf.square(x - y), -1),
            [(9, 1, 7, 1, 4), (1, 8, 1, 6, 4)],
            "are no batch",
        ),
        (lambda x, y: tf.reduce_sum(tf.square(x - y), -1), [(2, 1, 2), (1, 2, 2)], "saves no"),
    ],
)
def test_refuses(fn: Callable[..., Any], shapes: list[Any], reason: str) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=DISTANCE)
    assert "naive-distance" not in outcome.names
    assert reason in outcome.reasons


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: tf.reduce_sum(gaps(x, y) ** 3, -1),
        lambda x, y: tf.reduce_sum(gaps(x, y) ** 2.5, -1),
        lambda x, y: tf.reduce_sum(tf.abs(gaps(x, y)), -1),
        lambda x, y: tf.reduce_sum(tf.square(gaps(x, y)), 1),
        lambda x, y: tf.reduce_sum(tf.square(gaps(x, y)), [1, 2]),
        lambda x, y: tf.reduce_max(tf.square(gaps(x, y)), -1),
        lambda x, y: tf.reduce_sum(tf.square(gaps(x, y) / x[:, None, :1]), -1),
        lambda x, y: tf.reduce_sum(gaps(x, y) * gaps(y[:, :1], x[:1])[:1, :1], -1),
        lambda x, y: tf.reduce_sum(tf.exp(y[0]) / tf.square(gaps(x, y)), -1),
        lambda x, y: tf.reduce_sum(tf.square(x[:5, None] - y[:5]), -1)[0],
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any]) -> None:
    with np.errstate(invalid="ignore"):
        check_numbers(fn, random(N, D), random(M, D), families=DISTANCE)


def test_a_difference_that_is_read_elsewhere_stays() -> None:
    def fn(x: tf.Tensor, y: tf.Tensor) -> Any:
        gap = gaps(x, y)
        return tf.reduce_sum(tf.square(gap), -1), tf.reduce_sum(tf.sin(gap), -1)

    outcome = check_numbers(fn, random(N, D), random(M, D), families=DISTANCE)
    assert any("subtract" == n.op for n in outcome.result.graph.nodes)


def test_off_unless_asked_for() -> None:
    assert not DEFAULTS["naive-distance"]
    outcome = rewritten(SPELLINGS[0], random(N, D), random(M, D))
    assert "naive-distance" not in outcome.names


def test_integers_stay() -> None:
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    assert not rewritten(SPELLINGS[0], x, x, families=DISTANCE).names.count("naive-distance")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_far_from_the_origin_and_never_negative(dtype: str, offset: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((N, D)) + offset
    x[1::2] = x[::2] + 1e-3 * rng.standard_normal((N // 2, D))  # close pairs
    x = tf.constant(x, dtype)
    outcome = rewritten(SPELLINGS[0], x, x, families=DISTANCE)
    (got,) = run(outcome, outcome.result.graph, (x, x))
    exact = np.asarray(x.numpy(), np.longdouble)
    want = ((exact[:, None] - exact[None]) ** 2).sum(-1)
    assert (got >= 0).all()
    # Of the radius squared: float64's rounding, or float32's of the result.
    radius = float(np.max(want))
    rounding = 1e-7 * want if dtype == "float32" else 1e-15 * want
    assert np.all(np.abs(got - want) <= rounding * 4 + 1e-14 * radius)


def test_a_point_that_is_not_finite_spoils_its_own_distances_only() -> None:
    x = random(N, D).numpy()
    x[3, 2] = np.nan
    args = tf.constant(x), random(M, D)
    outcome = rewritten(SPELLINGS[0], *args, families=DISTANCE)
    (got,) = run(outcome, outcome.result.graph, args)
    assert np.isnan(got[3]).all()
    assert np.isfinite(np.delete(got, 3, 0)).all()


def test_gradients_of_a_naive_distance() -> None:
    def fn(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(tf.exp(-0.5 * SPELLINGS[0](x, y)))
        return tape.gradient(loss, [x, y])

    check_numbers(fn, random(N, D), random(M, D), families=True)
