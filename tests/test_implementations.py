"""Functions with one interface: the implementation for the device runs, as Grappler selects it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tf_exla

SHAPES = tf.constant(np.linspace(0.4, 3.0, 301))


def with_two(default: Any, on_cpu: Any, calls_cpu: bool = False) -> Any:
    """Return a function that calls one implementation and registers another one."""

    def fn(x: tf.Tensor) -> tf.Tensor:
        attributes = {"api_implements": f"sum_{uuid.uuid4()}"}
        general = tf.function(default, autograph=False, experimental_attributes=attributes)
        attributes = {**attributes, "api_preferred_device": "CPU"}
        own = tf.function(on_cpu, autograph=False, experimental_attributes=attributes)
        called, other = (own, general) if calls_cpu else (general, own)
        result = called(x)
        other.get_concrete_function(x).add_to_graph()
        return result

    return fn


@pytest.mark.parametrize("calls_cpu", [False, True])
def test_that_of_the_device_runs(calls_cpu: bool) -> None:
    fn = with_two(lambda x: tf.reduce_sum(x), lambda x: tf.reduce_sum(x) + 1000, calls_cpu)
    with tf.device("CPU"):
        want = tf.function(fn)(SHAPES)
        assert want > 1000
        np.testing.assert_allclose(tf_exla.optimize(fn, "1GB", strict=True)(SHAPES), want)


def test_another_signature_is_not_taken() -> None:
    fn = with_two(lambda x: tf.reduce_sum(x), lambda x: tf.cast(tf.reduce_sum(x), tf.float32))
    with tf.device("CPU"):
        made = tf_exla.optimize(fn, "1GB", strict=True)(SHAPES)
    np.testing.assert_allclose(made, np.sum(SHAPES))


@pytest.mark.parametrize("name", ["Gamma", "Poisson", "Dirichlet", "StudentT", "Binomial"])
def test_draws_of_distributions(name: str) -> None:
    one = tf.constant(1.0, tf.float64)
    made: dict[str, Any] = {
        "Gamma": lambda a: tfp.distributions.Gamma(a, one),
        "Poisson": lambda a: tfp.distributions.Poisson(a),
        "Dirichlet": lambda a: tfp.distributions.Dirichlet(a),
        "StudentT": lambda a: tfp.distributions.StudentT(a, one, one),
        "Binomial": lambda a: tfp.distributions.Binomial(20 * one, probs=a / 4),
    }

    def fn(a: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(a)
            drawn = made[name](a).sample(7, seed=[1, 2])
        slope = tape.gradient(drawn, a)
        return (drawn,) if slope is None else (drawn, slope)

    optimized = tf_exla.optimize(fn, "1GB", strict=True)(SHAPES)
    for found, want in zip(optimized, tf.function(fn)(SHAPES), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


def test_of_outer_functions_and_other_shapes() -> None:
    """One interface for several shapes; the one for the device stands in the outer function."""
    general = {"api_implements": f"scaled_{uuid.uuid4()}"}
    on_cpu = {**general, "api_preferred_device": "CPU"}

    def fn(x: tf.Tensor) -> tf.Tensor:
        def made(k: float, attributes: dict[str, str]) -> Any:
            return tf.function(
                lambda x: tf.reshape(x * k, [x.shape[0], 1]),
                autograph=False,
                experimental_attributes=attributes,
            )

        for one in (x[:2], x[:3]):
            made(5.0, on_cpu).get_concrete_function(one).add_to_graph()
        called = tf.function(lambda x: tf.reduce_sum(made(2.0, general)(x)), autograph=False)
        return called(x[:3])

    with tf.device("CPU"):  # Grappler may take the one for another shape, which fails
        made = tf_exla.optimize(fn, "1GB", strict=True)(SHAPES)
    np.testing.assert_allclose(made, 5 * np.sum(SHAPES[:3]))


def test_of_a_loaded_model(tmp_path: Path) -> None:
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([301], tf.float64)])
        def draw(self, a: tf.Tensor) -> tf.Tensor:
            one = tf.constant(1.0, tf.float64)
            return tfp.distributions.Gamma(a, one).sample(seed=[1, 2])

    tf.saved_model.save(Model(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))

    def fn(a: tf.Tensor) -> tf.Tensor:
        return loaded.draw(a) * 2.0

    optimized = tf_exla.optimize(fn, "1GB", strict=True)
    np.testing.assert_allclose(optimized(SHAPES), tf.function(fn)(SHAPES), rtol=1e-9)
