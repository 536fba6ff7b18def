"""Steps of training whose peaks are tables, and what an optimizer adds to them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from fresh_process import run_fresh
from keras_steps import training_step
from programs import Case, Made, normal, with_gradients
from programs_check import check_case

import tf_exla

WORDS, SIZE = 20_011, (512, 12)


def step_on_words() -> tuple[Any, tuple[tf.Tensor, tf.Tensor]]:
    """A step of Keras's Adam, whose two moments of the words' table are scattered into tables."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input(SIZE[1:], dtype="int32"),
            keras.layers.Embedding(WORDS, 64),
            keras.layers.Bidirectional(keras.layers.LSTM(48, return_sequences=True)),
            keras.layers.Bidirectional(keras.layers.LSTM(48)),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", loss="binary_crossentropy")
    random = np.random.default_rng(0)
    words = tf.constant(random.integers(0, WORDS, SIZE), "int32")
    labels = tf.constant(random.integers(0, 2, [SIZE[0], 1]), "float32")
    return training_step(model), (words, labels)


def trained(share: float) -> dict[str, Any]:
    """Train for four steps, with stock and within a share of stock's projected peak."""
    step, data = step_on_words()
    before = tf_exla.explain(tf.function(step), *data, limit=10**13).projected_peak_before
    expected = [float(step(*data)) for _ in range(4)]
    step, data = step_on_words()
    optimized = tf_exla.optimize(step, int(before * share))
    found = [float(optimized(*data)) for _ in range(4)]
    return {"losses": (expected, found), "loops": len(optimized.report(*data).loops)}


def test_a_recurrent_net_on_words() -> None:
    """The rows that are scattered are concatenated: tables of each chunk would be added up."""
    found = run_fresh(trained, 0.4)
    np.testing.assert_allclose(*found["losses"], rtol=1e-4)
    assert found["loops"]


def deep_net_with_dropout() -> Made:
    """Each of many layers keeps a random tensor for its gradient, small for the whole program."""
    layers, kept = 64, 0.9

    def function(x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        for layer, weight in enumerate(tf.unstack(weights)):
            x = tf.nn.relu(tf.matmul(x, weight))
            drawn = tf.random.stateless_uniform(x.shape, [layer, 7], dtype=x.dtype)
            x = tf.where(drawn < kept, x / kept, tf.zeros_like(x))
        return tf.reduce_sum(tf.square(x))

    return with_gradients(function), (normal(6007, 24), 0.3 * normal(layers, 24, 24, seed=1))


def dropped() -> dict[str, Any]:
    found = check_case(Case("deep net with dropout", deep_net_with_dropout, 6))
    function, arguments = deep_net_with_dropout()
    smaller = found["before"] // 12
    report = tf_exla.explain(tf.function(function, autograph=False), *arguments, limit=smaller)
    return found | {"smaller": smaller, "projected_smaller": report.projected_peak}


def test_a_deep_net_with_dropout() -> None:
    found = run_fresh(dropped)
    assert found["measured"] <= found["projected"] <= found["limit"]
    assert found["projected_smaller"] <= found["smaller"]
    assert found["worst"] <= 1
    assert found["loops"]
