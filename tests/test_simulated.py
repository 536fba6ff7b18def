"""Simulations whose steps come first: their random numbers are drawn by columns, the paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import Case, Made
from programs_check import check_case

import tf_exla

PATHS, MANY = 60_013, 300_007
SEED = tf.constant([3, 4])


def asian() -> Made:
    """The mean price over 40 steps, its pay-off, and what both depend on."""

    def function(numbers: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(numbers)
            drift, volatility = tf.unstack(numbers)
            drawn = tf.random.stateless_normal([40, PATHS], SEED, dtype=tf.float64)
            prices = tf.exp(tf.cumsum(drift + volatility * drawn, 0))
            value = tf.reduce_mean(tf.nn.relu(tf.reduce_mean(prices, 0) - 1.0))
        return [value, tape.gradient(value, numbers)]

    return function, (tf.constant([-0.005, 0.1], tf.float64),)


def two_factors() -> Made:
    """A volatility that is random itself: two numbers for each path and step."""

    def function(start: tf.Tensor) -> tf.Tensor:
        volatility, price = tf.fill([MANY], start[0]), tf.zeros([MANY], tf.float64)
        for step in range(12):
            drawn = tf.random.stateless_normal([2, MANY], SEED + step, dtype=tf.float64)
            size = tf.sqrt(tf.nn.relu(volatility) * 0.05)
            price += size * drawn[0] - size * size / 2
            volatility += (start[0] - volatility) * 0.1 + 0.3 * size * drawn[1]
        return tf.reduce_mean(tf.nn.relu(tf.exp(price) - 1.0))

    return function, (tf.constant([0.04], tf.float64),)


def in_a_while() -> Made:
    """A step of a While reads one row of all numbers."""

    def function(start: tf.Tensor) -> tf.Tensor:
        drawn = tf.random.stateless_uniform([40, 3, PATHS // 3], SEED, dtype=tf.float32)
        _, price = tf.while_loop(
            lambda step, price: step < 40,
            lambda step, price: (step + 1, price + drawn[step] * tf.exp(-price * price)),
            (0, tf.zeros([3, PATHS // 3]) + start),
        )
        return tf.reduce_mean(price)

    return function, (tf.constant(0.5),)


def resampled() -> Made:
    """A particle filter: rows of random numbers in another order, so only columns are split."""

    def function(seen: tf.Tensor) -> tf.Tensor:
        def step(carry: Any, one: tf.Tensor) -> Any:
            x, total, k = carry
            x = 0.9 * x + tf.random.stateless_normal([PATHS // 2, 2], SEED + k, dtype=tf.float64)
            logs = -0.5 * tf.reduce_sum((one - x) ** 2, -1)
            at = (tf.range(PATHS // 2, dtype=tf.float64) + 0.5) / (PATHS // 2)
            picked = tf.searchsorted(tf.cumsum(tf.nn.softmax(logs)), at)
            x = tf.gather(x, tf.minimum(picked, PATHS // 2 - 1))
            return x, total + tf.reduce_logsumexp(logs), k + 1

        start = tf.zeros([PATHS // 2, 2], tf.float64), tf.zeros([], tf.float64), 0
        x, total, _ = tf.scan(step, seen, start)
        return tf.reduce_mean(x, 1), total

    return function, (tf.constant(np.random.default_rng(0).normal(size=(3, 2))),)


PROGRAMS = {
    "resampled": (resampled, 1.8),
    "asian": (asian, 10),
    "two factors": (two_factors, 5),
    "in a While": (in_a_while, 9.5),
}
"""Each with the part of the stock peak that is its limit."""


def checked(name: str) -> dict[str, Any]:
    make, factor = PROGRAMS[name]
    return check_case(Case(name, make, factor))


@pytest.mark.parametrize("name", PROGRAMS)
def test_paths_are_split(name: str) -> None:
    found = run_fresh(checked, name)
    assert found["measured"] <= found["projected"] <= found["limit"]
    assert found["worst"] <= 1
    assert found["loops"]


def of_a_state() -> Callable[[], tf.Tensor]:
    """Numbers of an op with a state, of which each call draws others."""
    return lambda: tf.reduce_sum(tf.exp(tf.random.normal([30, PATHS], seed=7)), 0)[:5]


def test_numbers_of_a_state() -> None:
    """An eager call draws the numbers that stock draws, call after call."""
    tf.random.set_seed(1)
    stock = tf.function(of_a_state())
    expected = [stock().numpy() for _ in range(3)]
    tf.random.set_seed(1)
    optimized = tf_exla.optimize(of_a_state(), 2_500_000, strict=True)
    for one in expected:
        np.testing.assert_allclose(optimized(), one, rtol=1e-5)
