"""Convolutions for which TensorFlow has no CPU kernel. XLA compiles them, one call each.

They come from functions with `jit_compile=True`: Keras has one around each convolution whose
channels are in groups. Within a limit such a function is not compiled as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tf_exla.frontends.tf.ops.memory.call import (
    Bound,
    Call,
    TensorLike,
    copy_of_everything,
    itemsize,
)
from tf_exla.model.eigen import packed_bytes
from tf_exla.model.projection import RUNTIME_BYTES

OPERANDS = {
    "Conv2D": (0, 1, -1), "Conv3D": (0, 1, -1),
    "Conv2DBackpropFilter": (0, -1, 2), "Conv3DBackpropFilterV2": (0, -1, 2),
    "Conv2DBackpropInput": (-1, 1, 2), "Conv3DBackpropInputV2": (-1, 1, 2),
}  # fmt: skip
"""Positions of images, filters and convolved images among operands; -1 is the op's result."""


def has_cpu_kernel(
    op: str, inputs: Sequence[Any], output: Any, attrs: Mapping[str, object]
) -> bool:
    """Return whether a CPU kernel computes a convolution: not with groups, nor channels first.

    With groups there is one for a convolution of two dimensions, and none for its gradients. Where
    the number of channels is unknown, there is one.
    """
    if _channels_first(attrs):
        return False
    images, filters = ((*inputs, output)[position].shape for position in OPERANDS[op][:2])
    if op == "Conv2D" or images is None or filters is None:
        return True
    channels, of_a_filter = images[-1], filters[-2]
    return channels == of_a_filter or None in (channels, of_a_filter)


def _channels_first(attrs: Mapping[str, object]) -> bool:
    return str(attrs.get("data_format", "")).startswith("NC")


def _channels(images: TensorLike, attrs: Mapping[str, object]) -> int:
    return images.shape[1 if _channels_first(attrs) else -1]


def bounds(op: str, kernel: Bound) -> Bound:
    """Return the bound of an op's CPU kernel, or that of XLA's code where there is none.

    XLA may copy each operand and the result for another layout, and packs patches as Eigen does.
    """
    images_at, filters_at, result_at = OPERANDS[op]

    def bound(call: Call) -> int:
        if has_cpu_kernel(op, call.inputs, call.outputs[0], call.attrs):
            return kernel(call)
        tensors = (*call.inputs, call.outputs[0])
        *window, channels, made = tensors[filters_at].shape
        result = tensors[result_at]
        pixels = prod(result.shape) // max(1, made)
        places = prod(tensors[images_at].shape)
        groups = _channels(tensors[images_at], call.attrs) // max(1, channels)
        channels, made = max(1, channels), made // max(1, groups)  # of one group
        patch = prod(window) * channels
        product = pixels, patch, made
        if filters_at < 0:
            product = patch, pixels, made
        elif images_at < 0:
            product = places // max(1, channels * groups), prod(window) * made, channels
        packed = packed_bytes(*product, itemsize(result.dtype), call.threads)
        return RUNTIME_BYTES + 2 * copy_of_everything(call) + packed

    return bound
