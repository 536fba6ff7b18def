"""One step of training a compiled Keras model, written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Step = Callable[[tf.Tensor, tf.Tensor], Any]


def training_step(model: keras.Model) -> Step:
    """Return the step, which returns the loss; its optimizer's variables exist from now on."""
    model.optimizer.build(model.trainable_variables)

    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step
