"""Transformer layers over long sequences: forward, and a step of training.

Keras's MultiHeadAttention and Dense layers, float32, each with a LayerNormalization behind it.
Stock TensorFlow holds the attention weights [batch, heads, length, length].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gp_experiments.arms import SPEED_ENVIRONMENT, Arm, Cap
from gp_experiments.sweep import Phase, Task

SUMMARY = "attention over long sequences: forward, and the train step"
Mode = Literal["forward", "train"]


@dataclass(frozen=True)
class Config:
    """`memory` is what stock is held to. `timeout` [s] of one process."""

    lengths: tuple[int, ...]
    limits: tuple[str, ...]
    memory: str
    modes: tuple[Mode, ...] = ("forward", "train")
    layers: int = 2
    d_model: int = 512
    heads: int = 8
    dff: int = 2048
    batch: int = 64
    stock: bool = True
    repeats: int = 3
    cap: Cap = "resident"
    timeout: float | None = None


@dataclass(frozen=True)
class Run:
    """One program; `limit` is the limit, or the memory that stock is held to."""

    mode: str
    length: int
    arm: str
    limit: str
    layers: int
    d_model: int
    heads: int
    dff: int
    batch: int
    repeats: int
    cap: Cap


def tasks(config: Config) -> Iterator[Task]:
    """Yield a task for each mode, length, stock and each limit."""
    for mode in config.modes:
        for length in config.lengths:
            arms = [("stock", config.memory)] if config.stock else []
            for arm, limit in [*arms, *(("limit", limit) for limit in config.limits)]:
                run = Run(
                    mode, length, arm, limit, config.layers, config.d_model, config.heads,
                    config.dff, config.batch, config.repeats, config.cap,
                )  # fmt: skip
                phases = (
                    Phase("peak", f"{__name__}:peak", cap=config.cap),
                    Phase("time", f"{__name__}:time", SPEED_ENVIRONMENT),
                )
                yield Task(f"{mode} length {length:,} {arm} {limit}", asdict(run), phases)


def program(run: Run) -> tuple[Any, list[Any]]:
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


def _run(arguments: dict[str, Any]) -> Run:
    return Run(**{k: v for k, v in arguments.items() if k not in ("data_dir", "work_dir")})


def peak(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Measure the peak, held to the limit."""
    from gp_experiments.measuring import limit_device, peak_of

    run = _run(arguments)
    limit_device(run.cap, run.limit)
    return peak_of(*program(run), run.arm, run.limit, arm)


def time(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Time the calls, in TensorFlow's usual settings."""
    from gp_experiments.measuring import limit_device, time_of

    run = _run(arguments)
    limit_device(run.cap, run.limit)
    return time_of(*program(run), run.arm, run.limit, arm, repeats=run.repeats)
