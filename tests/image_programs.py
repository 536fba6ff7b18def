"""Programs on one large image, sound or volume, which has no batch to split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from programs import Case, Made, normal, with_gradients


def _filters(*shapes: Sequence[int]) -> list[Any]:
    made = []
    for seed, shape in enumerate(shapes):
        scale = float(tf.reduce_prod(shape[:-1])) ** 0.5
        made.append(normal(*shape, seed=seed + 1, dtype="float32") / scale)
    return made


def convolutions() -> Made:
    """Four convolutions of one image, and the gradients of their filters."""

    def loss(x: Any, *filters: Any) -> Any:
        for one in filters[:-1]:
            x = tf.nn.relu(tf.nn.conv2d(x, one, 1, "SAME"))
        return tf.reduce_mean(tf.square(tf.nn.conv2d(x, filters[-1], 1, "SAME")))

    filters = _filters((3, 3, 3, 16), (3, 3, 16, 16), (3, 3, 16, 16), (3, 3, 16, 1))
    return with_gradients(loss), (normal(1, 509, 307, 3, dtype="float32"), *filters)


def unet() -> Made:
    """Segmentation of one image: two levels of pooling, and transposed convolutions back up."""

    def loss(x: Any, labels: Any, *filters: Any) -> Any:
        first, second, bottom, up, last, scores = filters
        fine = tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME"))
        coarse = tf.nn.relu(tf.nn.conv2d(tf.nn.max_pool2d(fine, 2, 2, "SAME"), second, 1, "SAME"))
        y = tf.nn.relu(tf.nn.conv2d(coarse, bottom, 1, "SAME"))
        y = tf.nn.conv2d_transpose(y, up, [1, *x.shape[1:3], up.shape[2]], 2, "SAME")
        y = tf.nn.relu(tf.nn.conv2d(tf.concat([y, fine], -1), last, 1, "SAME"))
        y = tf.nn.conv2d(y, scores, 1, "SAME")
        found = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, y)
        return tf.reduce_mean(found)

    filters = _filters(
        (3, 3, 3, 12), (3, 3, 12, 24), (3, 3, 24, 24), (2, 2, 12, 24), (3, 3, 24, 12), (1, 1, 12, 4)
    )
    x = normal(1, 416, 304, 3, dtype="float32")
    labels = tf.cast(tf.abs(normal(1, 416, 304, seed=9)) * 2, tf.int32) % 4
    return with_gradients_of(loss, 2), (x, labels, *filters)


def with_gradients_of(function: Any, first: int) -> Any:
    """Return the value, and the gradients of the arguments from `first` on."""

    def both(*arguments: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments[first:])
            value = function(*arguments)
        return [value, *tape.gradient(value, arguments[first:])]

    return both


def sound() -> Made:
    """A sound through causal convolutions with growing dilation, as in WaveNet."""

    def function(x: Any, *filters: Any) -> Any:
        total = 0.0
        for k, (gate, value) in enumerate(zip(filters[::2], filters[1::2], strict=True)):
            rate = 2**k
            padded = tf.pad(x, [[0, 0], [rate, 0], [0, 0]])
            y, z = (tf.nn.conv1d(padded, f, 1, "VALID", dilations=rate) for f in (gate, value))
            x = x + tf.tanh(y) * tf.sigmoid(z)
            total += tf.reduce_mean(x)
        return total

    filters = _filters(*[(2, 16, 16)] * 16)
    return function, (normal(1, 60_013, 16, dtype="float32"), *filters)


def style() -> Made:
    """The gradient of the style of one image: Gram matrices of two layers."""

    def loss(x: Any, first: Any, second: Any) -> Any:
        total = 0.0
        for one in (first, second):
            x = tf.nn.relu(tf.nn.conv2d(x, one, 1, "SAME"))
            gram = tf.einsum("bijc,bijd->bcd", x, x) / float(x.shape[1] * x.shape[2])
            total += tf.reduce_mean(tf.square(gram - 0.1))
            x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        return total

    filters = _filters((3, 3, 3, 24), (3, 3, 24, 24))
    return with_gradients(loss), (normal(1, 400, 304, 3, dtype="float32"), *filters)


def volume() -> Made:
    """Three convolutions of one volume, whose numbers are added up."""

    def function(x: Any, *filters: Any) -> Any:
        for one in filters:
            x = tf.nn.relu(tf.nn.conv3d(x, one, [1] * 5, "SAME"))
        return tf.reduce_sum(x, [0, 1, 2, 3])

    filters = _filters((3, 3, 3, 2, 8), (3, 3, 3, 8, 8), (3, 3, 3, 8, 4))
    return function, (normal(1, 96, 53, 47, 2, dtype="float32"), *filters)


def resolution() -> Made:
    """An image of twice the resolution, by channels that become pixels."""

    def function(x: Any, *filters: Any) -> Any:
        for one in filters[:-1]:
            x = tf.nn.relu(tf.nn.conv2d(x, one, 1, "SAME"))
        return tf.nn.depth_to_space(tf.nn.conv2d(x, filters[-1], 1, "SAME"), 2)

    filters = _filters((5, 5, 1, 32), (3, 3, 32, 32), (3, 3, 32, 4))
    return function, (normal(1, 360, 302, 1, dtype="float32"), *filters)


IMAGE_CASES: Sequence[Case] = (
    Case("convolutions of one image and gradients", convolutions, 10, rtol=1e-3),
    Case("U-Net of one image and gradients", unet, 5, rtol=1e-3),
    Case("dilated convolutions of one sound", sound, 4, rtol=1e-4),
    Case("style of one image and gradients", style, 5, rtol=1e-3),
    Case("convolutions of one volume", volume, 6, rtol=1e-4),
    Case("super-resolution of one image", resolution, 8, rtol=1e-4),
)
