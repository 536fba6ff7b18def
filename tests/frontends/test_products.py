"""Products of batches whose axes have one index, with oneDNN, as users run TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

SHAPES = [
    ((2, 1), ()),
    ((2, 1), (1,)),
    ((2, 1), (1, 1)),
    ((1, 2), ()),
    ((5, 1), (5, 1)),
    ((1, 1), (2, 1)),
    ((2, 1, 1), (1,)),
]


def errors(transposed: bool) -> list[float]:
    """Return the relative errors of products in float32."""
    rng = np.random.default_rng(0)
    found = []
    for batch, one in SHAPES:
        a = rng.standard_normal((*batch, 30, 500))
        b = rng.standard_normal((*one, 64, 500) if transposed else (*one, 500, 64))

        def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
            return tf.matmul(a, b, transpose_b=transposed)

        product = tf_exla.optimize(function, "1GB", strict=True, rewrites=False)
        got = product(tf.constant(a, tf.float32), tf.constant(b, tf.float32)).numpy()
        want = a @ (np.swapaxes(b, -1, -2) if transposed else b)
        found.append(float(np.abs(got - want).max() / np.abs(want).max()))
    return found


@pytest.mark.parametrize("transposed", [False, True])
def test_one_matrix_for_a_batch(transposed: bool) -> None:
    found = run_fresh(errors, transposed, env={"TF_ENABLE_ONEDNN_OPTS": "1"})
    assert max(found) < 1e-5, dict(zip(map(str, SHAPES), found, strict=True))


def joint(limit: int) -> dict[str, float]:
    """The joint of a transducer and its gradients: the batch of a product is split."""
    rng = np.random.default_rng(1)
    sizes = (2, 100, 64), (2, 30, 64), (64, 500)
    operands = [tf.constant(rng.standard_normal(size), tf.float32) for size in sizes]

    def function(sound: tf.Tensor, text: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch([sound, text, w])
            h = tf.tanh(sound[:, :, None] + text[:, None])
            scores = tf.nn.log_softmax(h @ (w * 0.1))
            loss = -tf.reduce_mean(scores[..., 0]) - tf.reduce_mean(scores[..., 3])
        return tape.gradient(loss, [sound, text, w])

    optimized = tf_exla.optimize(function, limit, strict=True)
    pairs = zip(optimized(*operands), function(*operands), strict=True)
    found = {str(k): float(tf.norm(a - b) / tf.norm(b)) for k, (a, b) in enumerate(pairs)}
    return {**found, "loops": len(optimized.report(*operands).loops)}


def test_a_chunk_of_one_index() -> None:
    """The last of 34 chunks is a batch of [2, 1]."""
    found = run_fresh(joint, 3_520_000, env={"TF_ENABLE_ONEDNN_OPTS": "1"})
    assert found.pop("loops") > 0
    assert max(found.values()) < 1e-4
