"""Methods optimized in a class are saved with its modules, as those of `tf.function` are."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import tf_exla


class Scaled(tf.Module):
    """A module whose methods are optimized in its class."""

    def __init__(self) -> None:
        self.scale = tf.Variable(2.0)

    @tf_exla.optimize(limit="10MB")
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def times(self, x: tf.Tensor) -> tf.Tensor:
        return self.scale * x

    @tf_exla.optimize(limit="10MB")
    @tf.function
    def plus(self, x: tf.Tensor) -> tf.Tensor:
        if not hasattr(self, "shift"):
            self.shift = tf.Variable(1.0)
        return self.shift + x


class ScaledTwice(Scaled):
    """It inherits one method, and has another of its own."""

    @tf_exla.optimize(limit="10MB")
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def times(self, x: tf.Tensor) -> tf.Tensor:
        return 2.0 * self.scale * x


@pytest.mark.parametrize("cls", [Scaled, ScaledTwice])
def test_methods_are_saved(tmp_path: Path, cls: type[Scaled]) -> None:
    module, other = cls(), cls()
    other.scale.assign(5.0)
    x = tf.constant([1.0, 2.0])
    module.plus(x)
    tf.saved_model.save(module, str(tmp_path / "module"))
    loaded = tf.saved_model.load(str(tmp_path / "module"))
    for method in ("times", "plus"):
        expected = getattr(module, method)(x).numpy().tolist()
        assert getattr(loaded, method)(x).numpy().tolist() == expected
    loaded.scale.assign(7.0)
    assert loaded.times(x).numpy().tolist() == [3.5 * y for y in module.times(x).numpy()]
