"""A view keeps the whole tensor alive that it is a part of, however small it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

N = 1 << 20
X = tf.constant(np.random.default_rng(0).random(N))
VIEWS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "slice": lambda a: a[:16],
    "one row": lambda a: tf.reshape(a, [-1, 16])[0],
    "last": lambda a: tf.reshape(a, [-1, 16])[-1][:4],
    "split": lambda a: tf.split(tf.reshape(a, [64, -1]), 64)[0][0, :16],
}


@pytest.mark.parametrize("name", VIEWS)
def test_small_views_keep_their_tensor(name: str) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        a = tf.cumsum(x)
        view, largest = VIEWS[name](a), tf.reduce_max(a)
        b = tf.cumsum(-x)  # a lives: the view is read after this
        return view * tf.reduce_max(b) + largest

    report = tf_exla.explain(tf.function(function), X, limit="1GB")
    # X, a, -X, and b with what its kernel allocates.
    assert report.projected_peak >= 5 * X.dtype.size * N
