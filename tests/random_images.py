"""Random programs on one image, sound or volume, with windows of all kinds, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Array = Any


@dataclass(frozen=True)
class ImageProgram:
    """A function of one image and of filters."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    text: str


class _Layers:
    """Random layers; `filters` holds a number for each weight."""

    def __init__(self, rng: np.random.Generator, space: int) -> None:
        self.rng, self.space = rng, space
        self.filters: list[Array] = []
        self.text: list[str] = []

    def weight(self, *shape: int) -> int:
        scale = np.sqrt(np.prod(shape[:-1]))
        self.filters.append(self.rng.normal(size=shape) / scale)
        return len(self.filters) - 1

    def layer(self, shape: Sequence[int]) -> tuple[str, Callable[[Any, Any], Any]]:
        """Return the name of a layer for an image of a shape, and its function of (x, filters)."""
        names = ["conv", "pointwise", "pad", "crop", "norm", "repeat", "reflect"]
        names += {1: ["dilated", "pool", "mean"], 3: ["transposed"],
                  2: ["depthwise", "transposed", "nearest", "bilinear", "depth", "pool", "mean"],
                  }[self.space]  # fmt: skip
        name = str(self.rng.choice(names, p=self._odds(names)))
        return name, getattr(self, f"_{name}")(shape)

    def _odds(self, names: Sequence[str]) -> Array:
        odds = np.array([4.0 if name == "conv" else 1.0 for name in names])
        return odds / odds.sum()

    def _size(self, most: int) -> int:
        return int(self.rng.integers(1, most + 1))

    def _padding(self) -> str:
        return str(self.rng.choice(["SAME", "VALID"], p=[0.7, 0.3]))

    def _window(self, shape: Sequence[int]) -> tuple[list[int], list[int], str]:
        sizes = [min(self._size(4), size) for size in shape[1:-1]]
        strides = [self._size(2) if size > 6 else 1 for size in shape[1:-1]]
        return sizes, strides, self._padding()

    def _pooled(self, shape: Sequence[int]) -> tuple[list[int], list[int], str]:
        sizes, strides, padding = self._window(shape)
        return sizes, [min(pair) for pair in zip(sizes, strides, strict=True)], padding

    def _conv(self, shape: Sequence[int]) -> Any:
        sizes, strides, padding = self._window(shape)
        w = self.weight(*sizes, shape[-1], self._size(3))
        return lambda x, f: tf.nn.convolution(x, f[w], strides, padding)

    def _dilated(self, shape: Sequence[int]) -> Any:
        w, rate = self.weight(2, shape[-1], 2), self._size(3)
        causal = [[0, 0], [rate, 0], [0, 0]]
        return lambda x, f: tf.nn.conv1d(tf.pad(x, causal), f[w], 1, "VALID", dilations=rate)

    def _depthwise(self, shape: Sequence[int]) -> Any:
        sizes, strides, padding = self._window(shape)
        w, stride = self.weight(*sizes, shape[-1], self._size(2)), [1, strides[0], strides[0], 1]
        return lambda x, f: tf.nn.depthwise_conv2d(x, f[w], stride, padding)

    def _transposed(self, shape: Sequence[int]) -> Any:
        size, stride = self._size(4), self._size(2)
        w = self.weight(*[size] * self.space, self._size(3), shape[-1])
        made = self.filters[w].shape[-2]
        padding = self._padding() if size >= stride else "SAME"
        out = [n * stride if padding == "SAME" else (n - 1) * stride + size for n in shape[1:-1]]
        return lambda x, f: tf.nn.conv_transpose(x, f[w], [shape[0], *out, made], stride, padding)

    def _nearest(self, shape: Sequence[int]) -> Any:
        size = [n * k for n, k in zip(shape[1:-1], (self._size(3), self._size(2)), strict=True)]
        return lambda x, f: tf.image.resize(x, size, "nearest")

    def _bilinear(self, shape: Sequence[int]) -> Any:
        size = [n * int(self.rng.choice([1, 2, 4, 3])) for n in shape[1:-1]]
        return lambda x, f: tf.cast(tf.image.resize(x, size), x.dtype)

    def _reflect(self, shape: Sequence[int]) -> Any:
        most = [min(n - 1, 5) for n in shape[1:-1]]
        around = [[int(k) for k in self.rng.integers(0, n + 1, 2)] for n in most]
        mode = str(self.rng.choice(["REFLECT", "SYMMETRIC"]))
        return lambda x, f: tf.pad(x, [[0, 0], *around, [0, 0]], mode)

    def _depth(self, shape: Sequence[int]) -> Any:
        if shape[-1] % 4 == 0:
            return lambda x, f: tf.nn.depth_to_space(x, 2)
        if all(n % 2 == 0 for n in shape[1:-1]):
            return lambda x, f: tf.nn.space_to_depth(x, 2)
        return lambda x, f: x

    def _pool(self, shape: Sequence[int]) -> Any:
        sizes, strides, padding = self._pooled(shape)
        return lambda x, f: tf.nn.pool(x, sizes, "MAX", strides, padding)

    def _mean(self, shape: Sequence[int]) -> Any:
        sizes, strides, padding = self._pooled(shape)
        return lambda x, f: tf.nn.pool(x, sizes, "AVG", strides, padding)

    def _pad(self, shape: Sequence[int]) -> Any:
        around = [[0, 0], *([self._size(3) - 1, self._size(3) - 1] for _ in shape[1:-1]), [0, 0]]
        value = float(self.rng.choice([0.0, 0.5]))
        return lambda x, f: tf.pad(x, around, constant_values=value)

    def _crop(self, shape: Sequence[int]) -> Any:
        begin = [int(self.rng.integers(0, 2)) if n > 4 else 0 for n in shape[1:-1]]
        size = [n - b - (n > 5) for n, b in zip(shape[1:-1], begin, strict=True)]
        return lambda x, f: tf.slice(x, [0, *begin, 0], [shape[0], *size, shape[-1]])

    def _pointwise(self, shape: Sequence[int]) -> Any:
        w = self.weight(1, shape[-1])
        how = self.rng.choice([tf.nn.relu, tf.tanh, tf.nn.softmax, tf.exp])
        return lambda x, f: how(x + f[w][0])

    def _repeat(self, shape: Sequence[int]) -> Any:
        """Repeat rows, or add those of neighbours up if there is a whole number of them."""
        k = int(self.rng.integers(2, 4))
        rest = shape[2:]
        if shape[1] % k == 0 and self.rng.random() < 0.7:
            split = [shape[0], shape[1] // k, k, *rest]
            return lambda x, f: tf.reduce_max(tf.reshape(x, split), 2)
        return lambda x, f: tf.repeat(x, k, 1)

    def _norm(self, shape: Sequence[int]) -> Any:
        """Divide by a moment of the whole image."""
        axes = list(range(1, len(shape) - 1))
        return lambda x, f: x / (1 + tf.reduce_mean(x**2, axes, keepdims=True))


def image_program(seed: int, scale: int = 1) -> ImageProgram:
    """Return the random program of a seed: one to six layers, some with a skip connection.

    `scale`: the factor by which its image is larger than those of some thousand numbers.
    """
    rng = np.random.default_rng(seed)
    space = int(rng.choice([1, 2, 3], p=[0.3, 0.5, 0.2]))
    longest = {1: 60, 2: 30, 3: 14}[space]
    batch = int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))
    first, *others = (int(n) for n in rng.integers(4, longest, space))
    shape = (batch, scale * first, *others, int(rng.integers(1, 4)))
    image = rng.normal(size=shape)
    layers = _Layers(rng, space)
    steps: list[tuple[str, Any]] = []
    x = tf.constant(image)
    for _ in range(int(rng.integers(1, 7))):
        name, step = layers.layer(x.shape.as_list())
        made = step(x, [tf.constant(one) for one in layers.filters])
        if made.shape.num_elements() > 20000 * scale or min(made.shape.as_list()) < 1:
            continue
        skips = made.shape == x.shape and rng.random() < 0.4
        steps.append((f"{name}{'+' if skips else ''}", step))
        x = made + x if skips else made
    kind = str(rng.choice(["loss", "image", "both", "gradients", "gram"]))

    def net(image: Any, filters: Any) -> Any:
        x = image
        for name, step in steps:
            made = step(x, filters)
            x = made + x if name.endswith("+") else made
        return x

    def function(image: Any, *filters: Any) -> Any:
        if kind == "image":
            return net(image, filters)
        with tf.GradientTape() as tape:
            tape.watch([image, *filters])
            y = net(image, filters)
            if kind == "gram":
                flat = tf.reshape(y, [-1, y.shape[-1]])
                loss = tf.reduce_sum(tf.square(tf.matmul(flat, flat, transpose_a=True)))
            else:
                loss = tf.reduce_mean(tf.square(y)) + tf.reduce_sum(y)
        if kind == "loss":
            return loss
        found = tape.gradient(loss, [image, *filters])
        found = [tf.zeros([]) if one is None else one for one in found]
        return [loss, y, *found] if kind == "both" else [loss, *found]

    text = f"{list(shape)} {' '.join(name for name, _ in steps)} -> {kind}"
    return ImageProgram(function, (image, *layers.filters), text)
