"""Inputs, gradients and references of programs. The test of a failure contains the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf


def draw_inputs(inputs: Sequence[tuple[Sequence[int], str]]) -> list[tf.Tensor]:
    """Return the inputs of a program: normal numbers, small integers with ties, booleans."""
    rng = np.random.default_rng(7)
    made = []
    for shape, dtype in inputs:
        values: Any
        if dtype == "bool":
            values = rng.random(shape) < 0.5
        elif "int" in dtype:
            values = rng.integers(0, 9, shape)
        elif dtype.startswith("complex"):
            values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        else:
            values = rng.standard_normal(shape)
        made.append(tf.cast(tf.constant(values), tf.as_dtype(dtype)))
    return made


def differentiated(function: Callable[..., Any]) -> Callable[..., list[tf.Tensor]]:
    """Return `function` with more outputs: the gradients of a scalar made of all its outputs."""

    def call(*inputs: tf.Tensor) -> list[tf.Tensor]:
        watched = [one for one in inputs if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            made = function(*inputs)
            numbers = [one for one in made if one.dtype.is_floating or one.dtype.is_complex]
            wide = [tf.cast(tf.math.real(one), tf.float64) for one in numbers]
            loss = tf.add_n(
                [tf.zeros([], tf.float64), *(tf.reduce_sum(tf.sin(one)) for one in wide)]
            )
        found = tape.gradient(loss, watched, unconnected_gradients="zero")
        return [*made, *map(tf.convert_to_tensor, found)]

    return call


@contextmanager
def as_written() -> Iterator[None]:
    """Run functions without Grappler, whose results may not be those of an eager call.

    It replaces argmax(sign(x)) by argmax(x), and log(1 + x) by log1p(x), also beside 1 - (1 + x).
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
