"""Gradients of gathered rows are `tf.IndexedSlices`, as without tf_exla.

Optimizers and norms treat them otherwise than dense gradients: a row that is gathered twice has two
entries, and slot variables of other rows do not decay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(5000, 16)).astype("float32")
IDS = tf.constant([3, 3, 7, 9, 3])
Loss = Callable[[tf.Tensor], tf.Tensor]


@pytest.fixture
def table() -> tf.Variable:
    return tf.Variable(TABLE)


@pytest.fixture
def losses(table: tf.Variable) -> Sequence[Loss]:
    """TensorFlow's function and the optimized one."""

    @tf.function
    def loss(ids: tf.Tensor) -> tf.Tensor:
        rows = tf.nn.embedding_lookup(table, ids)
        return tf.reduce_sum(rows**2 * tf.reduce_sum(rows, 1, keepdims=True))

    return loss, tf_exla.optimize(loss, "10MB", strict=True)


def plain(loss: Loss, table: tf.Variable) -> Any:
    with tf.GradientTape() as tape:
        value = loss(IDS)
    return tape.gradient(value, table)


def summed(loss: Loss, table: tf.Variable) -> Any:
    with tf.GradientTape() as tape:
        value = 2 * loss(IDS) + tf.reduce_sum(tf.gather(table, [1, 3]))
    return tape.gradient(value, table)


def second(loss: Loss, table: tf.Variable) -> Any:
    with tf.GradientTape() as outer:
        total = tf.reduce_sum(tf.convert_to_tensor(plain(loss, table)) ** 2)
    return outer.gradient(total, table)


@pytest.mark.parametrize("gradient", [plain, summed, second], ids=lambda one: one.__name__)
@pytest.mark.parametrize("traced", [False, True])
def test_as_in_tensorflow(
    losses: Sequence[Loss],
    table: tf.Variable,
    gradient: Callable[[Loss, tf.Variable], Any],
    traced: bool,
) -> None:
    def norms(loss: Loss) -> tuple[tf.Tensor, tf.Tensor]:
        made = gradient(loss, table)
        assert isinstance(made, tf.IndexedSlices)
        return tf.linalg.global_norm([made]), tf.convert_to_tensor(made)

    want, got = (
        (tf.function(lambda loss=loss: norms(loss))() if traced else norms(loss)) for loss in losses
    )
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), want, got)


def test_steps_of_an_optimizer(losses: Sequence[Loss], table: tf.Variable) -> None:
    found = []
    for loss in losses:
        table.assign(TABLE)
        adam = tf.keras.optimizers.Adam(0.1, clipnorm=1.0)
        for step in range(3):
            with tf.GradientTape() as tape:
                value = loss(IDS + 10 * step)
            adam.apply_gradients([(tape.gradient(value, table), table)])
        found.append(table.numpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("signature", [None, [tf.TensorSpec([None], tf.int64)]])
def test_more_rows_than_the_table(signature: Any) -> None:
    """Sizes that a signature leaves open are those of the call, and a vocabulary may be small."""
    table = tf.Variable(TABLE[:7])
    ids = tf.constant(RNG.integers(0, 7, 400))

    def loss(ids: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.exp(tf.gather(table, ids)))

    stock = tf.function(loss, input_signature=signature)
    for called in (stock, tf_exla.optimize(stock, "10MB", strict=True)):
        with tf.GradientTape() as tape:
            value = called(ids)
        found = tape.gradient(value, table)
        assert isinstance(found, tf.IndexedSlices)
        assert found.values.shape == (400, 16)


def test_in_a_branch_and_forward() -> None:
    x, ids = tf.constant(TABLE), IDS

    def loss(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.gather(x, ids) ** 2)

    found = []
    for called in (tf.function(loss), tf_exla.optimize(loss, "10MB", strict=True)):

        @tf.function
        def step(x: tf.Tensor, called: Any = called) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = tf.cond(x[0, 0] < 9, lambda: called(x), lambda: tf.reduce_sum(x))
            return tape.gradient(value, x)

        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward:
            value = called(x)
        found.append([tf.convert_to_tensor(step(x)), forward.jvp(value)])
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), *found)


def edges(points: tf.Tensor, left: tf.Tensor, right: tf.Tensor, far: tf.Tensor) -> Any:
    """Attraction along edges and repulsion from sampled points, as in UMAP and word2vec."""
    with tf.GradientTape() as tape:
        tape.watch(points)
        ends = [tf.gather(points, one) for one in (left, right, far)]
        near = tf.reduce_sum((ends[0] - ends[1]) ** 2, -1)
        apart = tf.reduce_sum((ends[0][:, None] - ends[2]) ** 2, -1)
        loss = tf.reduce_mean(tf.math.log1p(near)) - tf.reduce_mean(tf.math.log1p(apart))
    return loss, tf.convert_to_tensor(tape.gradient(loss, points))


def test_rows_that_several_gathers_add_are_split() -> None:
    """Their gradient joins the rows of all gathers, and sums the segments of the joined rows."""
    rng = np.random.default_rng(0)
    points = tf.constant(rng.standard_normal((1000, 2)))
    shapes = ((20_000,), (20_000,), (20_000, 10))
    places = [tf.constant(rng.integers(0, 1000, shape), tf.int32) for shape in shapes]
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(edges, points, *places, limit=1000)
    error = info.value
    assert error.smallest_limit is not None
    assert error.smallest_limit - error.resident < (error.projected_peak - error.resident) / 4
    expected = tf.function(edges)(points, *places)
    for limit in (error.smallest_limit, error.projected_peak // 2):
        found = tf_exla.optimize(edges, limit)(points, *places)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
