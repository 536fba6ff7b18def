"""Images in blocks of rows: the same numbers for all ops with windows and all sizes of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from random_images import image_program
from samples import batches

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.moves.images.blocks import in_blocks
from tf_exla.moves.images.cutting import Cut
from tf_exla.moves.images.growth import find_images
from tf_exla.moves.lowering import lower


def check(function: Callable[..., Any], *arrays: Any, text: str = "") -> int:
    """Compare a program in blocks with the program; return the number of nodes in blocks."""
    arguments = [tf.constant(one) for one in arrays]
    traced = tf.function(function)
    captured = capture(traced.get_concrete_function(*arguments))
    ops = TensorFlowOps()
    graph = lower(clean(captured.graph, ops), ops, 0)
    images = find_images(graph, ops, 0)
    if not images:
        return 0
    try:
        wanted = [one.numpy() for one in tf.nest.flatten(traced(*arguments))]
    except tf.errors.InvalidArgumentError:
        return 0  # TensorFlow has no gradient of dilated filters on a CPU
    rows_tried = {one.rows for one in images[0].cuts} | {1, 2, 3, images[0].size}
    for rows in rows_tried:
        cuts = [Cut(one, min(rows, one.size)) for one in images]
        made = in_blocks(graph, ops, cuts)
        check_graph(made, graph)
        found = restore(made)([*arguments, *captured.constants])
        for one, want in zip(found, wanted, strict=True):
            scale = max(np.max(np.abs(want), initial=0), 1)
            np.testing.assert_allclose(
                one / scale, want / scale, 0, 1e-10, err_msg=f"{rows} {text}"
            )
    return sum(len(one.steps) for one in images)


SAMPLE = [5, 11, 22, 28, 50, 54, 69, 70, 73, 126, 135]
"""Together they have each kind of layer, with and without gradients."""


@pytest.mark.parametrize("seeds", batches(SAMPLE, 200, 25))
def test_random_programs(seeds: list[int]) -> None:
    steps = []
    for seed in seeds:
        program = image_program(seed)
        steps.append(
            check(program.function, *program.arguments, text=f"seed {seed} {program.text}")
        )
    assert sum(count > 0 for count in steps) > len(steps) / 2


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


FILTERS = normal(3, 3, 2, 2, seed=1) / 4


def conv(x: Any) -> Any:
    return tf.nn.conv2d(x, FILTERS, 1, "SAME")


def test_one_tensor_in_two_roles() -> None:
    """Rows of a product with itself are read in blocks, and all of them."""

    def attention(x: Any) -> Any:
        y = conv(conv(x))[:, :, 0]
        return conv(tf.matmul(tf.matmul(y, y, transpose_b=True), y)[:, :, None])

    assert check(attention, normal(1, 21, 5, 2)) >= 3


def test_sums_of_each_image() -> None:
    """Squeeze and excite: channels are scaled by their means over each image."""

    def scaled(x: Any) -> Any:
        y = conv(x)
        return conv(y * tf.sigmoid(tf.reduce_mean(y, [1, 2], keepdims=True)))

    for batch in (1, 3):
        assert check(scaled, normal(batch, 19, 6, 2)) >= 4


def test_compared_numbers_have_the_same_bits() -> None:
    """A maximum of the whole image is found again where it came from."""

    def places(x: Any) -> Any:
        y = conv(tf.tanh(conv(x)))
        return tf.reduce_sum(tf.cast(y == tf.reduce_max(y, [1, 2], keepdims=True), tf.int32))

    x = normal(1, 301, 40, 2)
    assert check(places, x) >= 4
    x = tf.constant(x)
    smallest = 0
    try:
        tf_exla.optimize(places, 1, strict=True)(x)
    except tf_exla.MemoryLimitError as error:
        smallest = error.smallest_limit
    for limit in (smallest, 2 * smallest):
        assert tf_exla.optimize(places, limit, strict=True)(x) == 2


def test_outside_of_an_image_nothing_is_read() -> None:
    """Rows beyond the edges are no zeros after a bias, and may be infinite."""

    def net(x: Any) -> Any:
        y = tf.math.log(tf.square(conv(x)))
        return conv(tf.where(tf.math.is_finite(y), y, 0.5) + 1)

    assert check(net, normal(1, 23, 4, 2)) >= 5


def gradient(net: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradients of a net's squares."""

    def made(*arguments: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            loss = tf.reduce_sum(tf.square(net(*arguments)))
        return tape.gradient(loss, arguments)

    return made


def test_moved_images_stay_whole() -> None:
    """A slice or a pad may move images of the batch together with their rows."""
    around = [[0, 1], [2, 1], [0, 0], [0, 0]]
    check(lambda x: conv(conv(x)[:1, 1:]), normal(2, 19, 4, 2))
    check(lambda x: conv(tf.pad(conv(x), around)), normal(1, 19, 4, 2))
    check(lambda x: conv(tf.pad(conv(x)[1:], around)), normal(2, 19, 4, 2))


def test_results_with_different_overlaps() -> None:
    """One result of a node is read by a convolution, and another is not."""

    def halves(x: Any) -> Any:
        a, b = tf.split(tf.concat([conv(x), x], -1), 2, -1)
        return conv(conv(a)) + b

    def best(x: Any) -> Any:
        values, places = tf.nn.top_k(conv(x), 2)
        return conv(values) + tf.cast(places, x.dtype)

    for net in (halves, best):
        assert check(net, normal(1, 19, 4, 2)) >= 5


def test_sums_that_are_images() -> None:
    """The gradient of one row of an image is a sum over rows, and is itself read in rows."""
    for batch in (1, 2):
        x = normal(batch, 19, 4, 2)
        assert check(gradient(lambda x: conv(conv(x) - conv(x)[:, 9:10])), x) >= 10


def test_images_that_are_filters() -> None:
    assert check(gradient(lambda x: tf.nn.conv2d(x, x, 1, "SAME")), normal(5, 5, 5, 5)) >= 5


def test_operands_of_one_image() -> None:
    """Products do not broadcast their batch, so that each block needs the operand."""

    def columns(x: Any) -> Any:
        weights = tf.nn.softmax(tf.einsum("bhwc,bgwc->bwhg", conv(x), x))
        return conv(tf.einsum("bwhg,bgwc->bhwc", weights, conv(x)))

    def looked_up(x: Any, table: Any) -> Any:
        return conv(tf.gather(table, tf.argmax(conv(x), -1), axis=1, batch_dims=1))

    def mixed(x: Any, weights: Any) -> Any:
        return conv(tf.einsum("bhwc,bcd->bhwd", conv(x), weights))

    for batch in (1, 2):
        x = normal(batch, 19, 4, 2)
        assert check(gradient(columns), x) >= 20
        assert check(gradient(mixed), x, normal(batch, 2, 2)) >= 8
        assert check(looked_up, x, normal(batch, 2, 2)) >= 3


def test_as_many_channels_as_images() -> None:
    """Numbers of each channel are none of each image."""

    def net(x: Any, scale: Any) -> Any:
        return conv(tf.nn.relu(conv(x) * scale) + scale)

    steps = [check(gradient(net), normal(batch, 11, 4, 2), normal(2)) for batch in (2, 3)]
    assert steps[0] == steps[1]


def test_rows_outside_do_not_fail() -> None:
    """Integers that are zero, or no places of a table, only outside of what is read."""

    def pool(x: Any) -> Any:
        return tf.nn.max_pool2d(x, 3, 1, "SAME")

    x = np.random.default_rng(0).integers(1, 5, (1, 19, 4, 2)).astype(np.int32)
    x[:, 0] = 0
    for divided in (lambda x: 9 // x[:, 1:], lambda x: 9 % x[:, 1:]):
        assert check(lambda x, divided=divided: pool(divided(x)), x) == 3
    x[:, 0] = -7
    table = normal(5, 2)
    assert check(lambda x: conv(tf.gather(table, x[:, 1:, :, 0])), x) >= 2
    assert check(lambda x: conv(tf.gather(table, pool(pool(x))[..., 0])), x) >= 4


@pytest.mark.parametrize("seed", range(2))
def test_limits(seed: int) -> None:
    """A chain on one image runs in a small part of its memory, with the same numbers."""
    filters = [tf.constant(normal(3, 3, a, b, seed=seed)) for a, b in ((2, 8), (8, 8), (8, 3))]

    def loss(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(filters)
            y = x
            for one in filters:
                y = tf.tanh(tf.nn.conv2d(y, one / 9, 1, "SAME"))
            value = tf.reduce_mean(tf.square(y))
        return [value, *tape.gradient(value, filters)]

    x = tf.constant(normal(1, 211 + seed, 60, 2))
    with pytest.raises(tf_exla.MemoryLimitError) as caught:
        tf_exla.optimize(loss, 1, strict=True)(x)
    error = caught.value
    assert error.smallest_limit < error.projected_peak / 4
    wanted = tf.function(loss)(x)
    for limit in (error.smallest_limit, error.projected_peak // 4, error.projected_peak // 2):
        optimized = tf_exla.optimize(loss, limit, strict=True)
        for one, want in zip(optimized(x), wanted, strict=True):
            np.testing.assert_allclose(one, want, 1e-9, 1e-12)
