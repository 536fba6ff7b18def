"""Updates of large variables: the new value is computed in chunks, and replaces the old one."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from keras_steps import training_step

import tf_exla

ROWS, COLUMNS = 1_531, 1_024
BYTES = 4 * ROWS * COLUMNS


def variables(count: int) -> list[tf.Variable]:
    rng = np.random.default_rng(0)
    made = [rng.standard_normal([ROWS, COLUMNS]) for _ in range(count)]
    return [tf.Variable(one, dtype=tf.float32) for one in made]


def operands() -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(1)
    sides = [rng.standard_normal([61, size]) for size in (ROWS, COLUMNS)]
    return tf.constant(sides[0], tf.float32), tf.constant(sides[1], tf.float32)


def adam(weights: tf.Variable, mean: tf.Variable, square: tf.Variable) -> Any:
    """Adam's step with the gradient of a product, as optimizers write it."""

    def step(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        gradient = tf.matmul(a, b, transpose_a=True)
        mean.assign_add((gradient - mean) * 0.1)
        square.assign_add((tf.square(gradient) - square) * 0.01)
        weights.assign_sub(mean * 0.1 / (tf.sqrt(square) + 1.0))
        return tf.reduce_sum(gradient)

    return step


def within(step: Any, limit: int | None) -> Any:
    """Return the step within a limit; None: stock."""
    return tf.function(step) if limit is None else tf_exla.optimize(step, limit, strict=True)


def peaks(function: Any, data: tuple[tf.Tensor, ...], limit: int | None) -> dict[str, Any]:
    """Return the peaks of one more step and its limit, if it has one."""
    if limit is None:
        return {}
    measured = int(tf_exla.measured_peak(function, *data, fresh=False))
    projected = function.report(*data).projected_peak
    return {"measured": measured, "projected": projected, "limit": limit}


def after_steps(room: float | None, sparse: bool, count: int = 2) -> dict[str, Any]:
    """Return sums of all variables, and bytes.

    `room`: for the call, in multiples of one variable; None: stock. `sparse`: a row of each was
    updated before, after which TensorFlow copies a variable at each read and assignment.
    """
    state = variables(3)
    state[2].assign(tf.square(state[2]))
    if sparse:
        for one in state:
            one.scatter_update(tf.IndexedSlices(tf.ones([1, COLUMNS]), [3]))
    limit = None if room is None else int((3 + room) * BYTES) + (1 << 20)
    function = within(adam(*state), limit)
    results = [float(function(*operands())) for _ in range(count)]
    sums = [float(tf.reduce_sum(tf.cast(one, tf.float64) * k)) for k, one in enumerate(state, 1)]
    return {"numbers": [*results, *sums]} | peaks(function, operands(), limit)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("room", [1.2, 2.5])
def test_adam_needs_one_new_value(room: float, sparse: bool) -> None:
    """Neither a difference nor a copy of the variable exists beside the new value."""
    expected = run_fresh(after_steps, None, sparse)
    found = run_fresh(after_steps, room, sparse)
    np.testing.assert_allclose(found["numbers"], expected["numbers"], rtol=1e-5)
    assert found["measured"] <= found["projected"] <= found["limit"]


def test_a_held_value_stays() -> None:
    """A tensor that was read before a step keeps its numbers."""
    state = variables(3)
    state[2].assign(tf.square(state[2]))
    before = [one.read_value() for one in state]
    wanted = [one.numpy().copy() for one in before]
    optimized = tf_exla.optimize(adam(*state), int(4.2 * BYTES) + (1 << 20), strict=True)
    optimized(*operands())
    for one, value, variable in zip(before, wanted, state, strict=True):
        np.testing.assert_array_equal(one, value)
        assert np.abs(variable.numpy() - value).max() > 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64"])
def test_dtypes(dtype: str) -> None:
    """A sum that is assigned has the bits of an update in place."""
    rng = np.random.default_rng(2)
    start = tf.cast(rng.integers(-999, 999, [ROWS, 31]), dtype) / tf.cast(7, dtype)
    change = tf.cast(rng.integers(-9, 9, [ROWS, 31]), dtype) / tf.cast(3, dtype)
    found = []
    for optimized in (False, True):
        variable = tf.Variable(start)

        def step(change: tf.Tensor, variable: tf.Variable = variable) -> tf.Tensor:
            old = variable.read_value()
            variable.assign_add(change)
            variable.assign_sub(change * change)
            return tf.math.real(old)

        run = tf_exla.optimize(step, "1GB", strict=True) if optimized else tf.function(step)
        found.append((run(change).numpy(), variable.numpy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def clipped_step(layers: int) -> tuple[Any, tuple[tf.Tensor, tf.Tensor], int]:
    """A step that clips by the norm of all gradients, and decays weights first; weights' bytes."""
    keras.utils.set_random_seed(0)
    dense = [keras.layers.Dense(512, activation="relu") for _ in range(layers)]
    model = keras.Sequential([keras.Input((512,)), *dense, keras.layers.Dense(1)])
    model.compile(keras.optimizers.AdamW(1e-3, global_clipnorm=1.0), "mse")
    rng = np.random.default_rng(0)
    x, y = (tf.constant(rng.random((48, size)), "float32") for size in (512, 1))
    return training_step(model), (x, y), 4 * model.count_params()


def clipped(share: float | None) -> dict[str, Any]:
    """Return losses of three steps. `share`: room for the call, as a part of the weights."""
    step, data, weights = clipped_step(10)
    limit = None if share is None else int((3 + share) * weights)
    function = within(step, limit)
    return {"losses": [float(function(*data)) for _ in range(3)]} | peaks(function, data, limit)


def test_gradients_for_a_norm_are_computed_twice() -> None:
    """All gradients are needed for their norm, and again after weights have been decayed."""
    expected, found = run_fresh(clipped, None), run_fresh(clipped, 0.5)
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-5)
    assert found["measured"] <= found["projected"] <= found["limit"]


def test_passed_gradients_are_counted_once() -> None:
    """Keras's optimizers pass all gradients through one `IdentityN`, which shares their buffers."""
    step, data, weights = clipped_step(6)
    report = tf_exla.explain(tf.function(step), *data, limit=10**12)
    assert 4 * weights <= report.projected_peak_before <= 5 * weights
