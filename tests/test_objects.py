"""An optimized function in place of a `tf.function`: copied, pickled, saved, held by models."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_exla

LIMIT = "6MB"
N = 1009


def affinities(x: tf.Tensor, scale: Any = 1.0) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(-tf.square(x[:, None] - x[None, :])), 1) * scale


def points() -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).standard_normal(N))


class Holder(tf.Module):
    """Holds an optimized method and a decorated one; both read a variable."""

    def __init__(self) -> None:
        self.scale = tf.Variable(2.0, dtype=tf.float64)
        self.held = tf_exla.optimize(self.plain, LIMIT)

    def plain(self, x: tf.Tensor) -> tf.Tensor:
        return affinities(x, self.scale)

    @tf_exla.optimize(limit=LIMIT)
    def decorated(self, x: tf.Tensor) -> tf.Tensor:
        return affinities(x, self.scale)


COPIES: Mapping[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
}


@pytest.mark.each_value
@pytest.mark.parametrize("called", [False, True], ids=["new", "called"])
@pytest.mark.parametrize("stock", [affinities, tf.function(affinities)], ids=["python", "tf"])
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_function(how: str, stock: Any, called: bool) -> None:
    optimized = tf_exla.optimize(stock, LIMIT, rewrites={"chains": False})
    if called:
        optimized(points())
    made = COPIES[how](optimized)
    assert made.report(points()).limit == 6_000_000
    assert made._request == optimized._request
    np.testing.assert_array_equal(made(points()), optimized(points()))


@pytest.mark.parametrize("package", ["copy", "gpflow.utilities"])
def test_a_deep_copy_of_a_module_reads_its_own_variables(package: str) -> None:
    deepcopy = pytest.importorskip(package).deepcopy
    holder = Holder()
    want = holder.held(points()).numpy()
    np.testing.assert_array_equal(holder.decorated(points()), want)
    made = deepcopy(holder)
    made.scale.assign(4.0)
    for function in (made.held, made.decorated):
        np.testing.assert_allclose(function(points()), 2.0 * want, rtol=1e-14)
    for function in (holder.held, holder.decorated):
        np.testing.assert_array_equal(function(points()), want)


def with_signature() -> Any:
    specs = [tf.TensorSpec([None], tf.float64)]
    return tf_exla.optimize(tf.function(affinities, input_signature=specs), LIMIT)


SIGNATURES: Mapping[str, Callable[[], Any]] = {
    "function": with_signature,
    "several": lambda: {"first": with_signature(), "second": with_signature()},
    "concrete": lambda: tf_exla.optimize(affinities, LIMIT).get_concrete_function(
        tf.TensorSpec([N], tf.float64)
    ),
}


@pytest.mark.parametrize("which", SIGNATURES)
def test_signatures_of_a_saved_model(which: str, tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=SIGNATURES[which]())
    loaded = tf.saved_model.load(str(tmp_path))
    assert len(loaded.signatures) == (2 if which == "several" else 1)
    for signature in loaded.signatures.values():
        (found,) = signature(x=points()).values()
        np.testing.assert_allclose(found, affinities(points()), rtol=1e-12)


def test_what_has_no_signature_is_refused_as_tensorflow_does(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="with an input signature"):
        tf.saved_model.save(tf.Module(), str(tmp_path), signatures=tf_exla.optimize(affinities))


@keras.saving.register_keras_serializable("tf_exla_tests")
class Attention(keras.layers.Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = tf_exla.optimize(
            lambda x: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x), LIMIT
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.function(x)


def test_a_keras_model_is_saved_exported_and_copied(tmp_path: Path) -> None:
    inputs = keras.Input((8,))
    model = keras.Model(inputs, keras.layers.Dense(3)(Attention()(inputs)))
    model.step = tf_exla.optimize(model.__call__, LIMIT)
    x = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32)
    want = model.step(x).numpy()
    model.save(tmp_path / "model.keras")
    model.export(str(tmp_path / "exported"), verbose=False)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    for function in (loaded, exported.serve, copy.deepcopy(model)):
        np.testing.assert_allclose(function(x), want, rtol=1e-5, atol=1e-6)
