"""Transformer layers over long sequences: forward, and a step of training.

Keras's MultiHeadAttention and Dense layers, float32, each with a LayerNormalization behind it.
Stock TensorFlow holds the attention weights [batch, heads, length, length].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gp_experiments.arms import Arm
from gp_experiments.experiments import runs
from gp_experiments.sweep import Task

SUMMARY = "attention over long sequences: forward, and the train step"
Mode = Literal["forward", "train"]


@dataclass(frozen=True, kw_only=True)
class Config(runs.Settings):
    """Sizes of the layers, and lengths of the sequences."""

    lengths: tuple[int, ...]
    limits: tuple[str, ...]
    modes: tuple[Mode, ...] = ("forward", "train")
    layers: int = 2
    d_model: int = 512
    heads: int = 8
    dff: int = 2048
    batch: int = 64


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One program."""

    mode: str
    length: int
    layers: int
    d_model: int
    heads: int
    dff: int
    batch: int


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each mode, length, stock and each limit."""
    for mode in config.modes:
        for length in config.lengths:
            for arm in runs.arms(config, config.limits):
                run = Run(
                    mode=mode, length=length, layers=config.layers, d_model=config.d_model,
                    heads=config.heads, dff=config.dff, batch=config.batch, **arm,
                )  # fmt: skip
                yield runs.task(__name__, f"{mode} length {length:,}", run)


def program(run: Run) -> runs.Program:
    """Return the layers, or their train step, as a function of x [batch, length, d_model]."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    inputs = keras.Input((run.length, run.d_model))
    x = inputs
    for _ in range(run.layers):
        attention = keras.layers.MultiHeadAttention(run.heads, run.d_model // run.heads)
        x = keras.layers.LayerNormalization()(x + attention(x, x))
        hidden = keras.layers.Dense(run.dff, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(run.d_model)(hidden))
    model = keras.Model(inputs, x)
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)

    def forward(x: tf.Tensor) -> tf.Tensor:
        return model(x)

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    rng = np.random.default_rng(0)
    shape = (run.batch, run.length, run.d_model)
    made = [tf.constant(rng.standard_normal(shape, np.float32)) for _ in range(2)]
    return (forward, made[:1]) if run.mode == "forward" else (step, made)


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit."""
    run, _ = runs.parse(Run, arguments)
    return runs.peak_of(run, lambda: program(run), arm)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in TensorFlow's usual settings."""
    run, _ = runs.parse(Run, arguments)
    return runs.time_of(run, lambda: program(run), arm)
