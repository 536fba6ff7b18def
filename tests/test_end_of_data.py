"""At the end of a dataset, what waits for no element happens as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_exla

State = dict[str, tf.Variable]
Step = Callable[[State, Any], Any]


def counted(state: State, iterator: Any) -> Any:
    x = next(iterator)
    state["count"].assign_add(1)
    state["mean"].assign(tf.reduce_sum(tf.sin(state["mean"] * tf.ones([1000]))) + 1)
    state["total"].assign_add(tf.reduce_sum(x))
    return x


def before(state: State, iterator: Any) -> Any:
    state["count"].assign_add(1)
    x = next(iterator)
    state["mean"].assign_add(tf.cast(state["count"], tf.float32))
    return x


def in_a_function(state: State, iterator: Any) -> Any:
    inner = tf.function(lambda x: (state["count"].assign_add(1), tf.reduce_sum(x))[1])
    return inner(next(iterator))


def in_a_branch(state: State, iterator: Any) -> Any:
    x = next(iterator)
    if state["mean"] < 9.0:
        state["mean"].assign_add(2.0)
    return x


def after_one_that_waits(state: State, iterator: Any) -> Any:
    """The value that is read of a variable comes after an assignment that waits for the element."""
    x = next(iterator)
    state["mean"].assign(0.5 * state["mean"] + tf.reduce_sum(x))
    state["total"].assign_add(state["mean"])
    state["count"].assign_add(1)
    return x


def drawn(state: State, iterator: Any) -> Any:
    x = next(iterator)
    seed = tf.stack([state["count"], 7])
    state["count"].assign_add(1)
    return x * tf.random.stateless_uniform([], seed)


def elements() -> Iterator[np.ndarray[Any, Any]]:
    yield from np.arange(1, 4, dtype=np.float32)


def left_behind(step: Step, optimize: Callable[..., Any]) -> list[Any]:
    """Return the values of variables and results after two epochs."""
    state = {
        "count": tf.Variable(0),
        "mean": tf.Variable(0.0),
        "total": tf.Variable(0.0),
    }
    function = optimize(lambda iterator: step(state, iterator))
    found: list[Any] = []
    for _ in range(2):
        kind = tf.TensorSpec([], tf.float32)
        iterator = iter(tf.data.Dataset.from_generator(elements, output_signature=kind).batch(2))
        found += [np.sum(function(iterator)) for _ in range(2)]
        with pytest.raises(tf.errors.OutOfRangeError):
            function(iterator)
        found += [one.numpy() for one in state.values()]
    return found


STEPS = (counted, before, in_a_function, in_a_branch, after_one_that_waits, drawn)


@pytest.mark.parametrize("step", STEPS, ids=lambda one: one.__name__)
def test_variables_are_as_in_tensorflow(step: Step) -> None:
    wanted = left_behind(step, tf.function)
    assert left_behind(step, lambda f: tf_exla.optimize(f, "1GB", strict=True)) == wanted


def trained() -> list[Any]:
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
    kinds = (tf.TensorSpec((8,), tf.float32), tf.TensorSpec((1,), tf.float32))
    data = tf.data.Dataset.from_generator(
        lambda: zip(x, x[:, :1] ** 2, strict=True), output_signature=kinds
    ).batch(32)
    model = keras.Sequential([
        keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.5),
        keras.layers.Dense(1),
    ])  # fmt: skip
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    losses = model.fit(data, epochs=3, verbose=0).history["loss"]
    return [*losses, int(model.optimizer.iterations)]


def test_an_epoch_of_unknown_length() -> None:
    """Seeds of dropout and the counter of Adam advance once more in each epoch."""
    wanted = trained()
    with tf_exla.limit("1GB"):
        assert trained() == pytest.approx(wanted, rel=1e-6)
    assert wanted[-1] > 9
