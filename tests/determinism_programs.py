"""Programs under TensorFlow's op determinism, in a process of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from programs_check import difference, limits_of
from tie_programs import PROGRAMS, distances, far, graded, points

import tf_exla


def scattered(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows = tf.math.floormod(tf.range(x.shape[0]), 7)
    return tf.scatter_nd(rows[:, None], far(x, y), [7, y.shape[0]])


def convolved(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    image = far(x, y)[None, :, :, None]
    return tf.nn.conv2d(image, tf.ones([3, 3, 1, 2], x.dtype), 1, "SAME")


def neighbours(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A top-k over many columns, which becomes a running top-k."""
    return tf.math.top_k(-distances(x, tf.tile(y, [30, 1])), 5)


def random_rows(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    d = far(x, y)
    return tf.reduce_sum(d * tf.random.stateless_normal(d.shape, [1, 2], dtype=d.dtype), 0)


CHOSEN: dict[str, Callable[..., Any]] = {
    **{name: PROGRAMS[name] for name in ("softmax", "first choice")},
    "sums": lambda x, y: (tf.reduce_sum(far(x, y), 0), tf.reduce_mean(tf.sin(far(x, y)))),
    "segment sum": graded(
        lambda x, y: tf.math.segment_sum(far(x, y), tf.range(x.shape[0]) // 7)
    ),
    "gather": graded(lambda x, y: tf.gather(far(x, y), tf.range(400) % x.shape[0])),
    "convolution": graded(convolved),
    "scatter": scattered,
    "neighbours": neighbours,
    "random": random_rows,
    # Not tf.math.bincount with weights: stock's own bits differ from call to call.
}  # fmt: skip


WITHOUT = ("softmax", "sums", "segment sum", "neighbours")
"""Programs that are run without op determinism first."""


def run_all() -> dict[str, str]:
    """Return failures by program: errors, wrong numbers, or bits that differ between runs."""
    wrong = {name: said for name in WITHOUT if (said := _run(name, jit=None))}
    tf.keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    for k, name in enumerate(CHOSEN):
        if said := _run(name, jit=True if k % 2 else None):
            wrong[f"{name}, deterministic"] = said
    return wrong


def _run(name: str, jit: bool | None) -> str:
    x, y = points(name, 211, 0, "float32"), points(name, 193, 1, "float32")
    stock = tf.function(CHOSEN[name], autograph=False)
    expected = stock(x, y)
    smallest, unsplit = limits_of(stock, (x, y), jit)
    limit = (3 * smallest + unsplit) // 4
    bits = set()
    try:
        for calls in (3, 1):  # the second time, the plan is made anew
            optimized = tf_exla.optimize(stock, limit, jit_compile=jit)
            for _ in range(calls):
                found = tf.nest.flatten(optimized(x, y))
                bits.add(b"".join(np.asarray(one).tobytes() for one in found))
    except Exception as error:
        return f"{type(error).__name__} at {limit:,}: {error}"
    if len(bits) > 1:
        return f"{len(bits)} results of one plan at {limit:,}"
    return f"other numbers at {limit:,}" if difference(expected, found, 1e-4) > 1 else ""
