"""The windows of TensorFlow's ops on images, from their attributes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tf_exla.frontends.tf.ops.rules.images import channels_first
from tf_exla.ir.graph import Node
from tf_exla.ir.windows import Role, Window, Windows
from tf_exla.vocabulary.rules.builders import sizes, text_attr

Rule = Callable[[Node], Windows | None]

_VALID = {"padding": "VALID", "explicit_paddings": []}


def convolution(images_at: int, filters_at: int, result_at: int) -> Rule:
    """Return the rule of a convolution or of one of its gradients.

    The arguments are positions among the operands, -1 for the op's result: see `rules/images.py`.
    """

    def rule(node: Node) -> Windows | None:
        tensors = (*node.inputs, node.output)
        image, filters, pooled = (sizes(tensors[at]) for at in (images_at, filters_at, result_at))
        rates = _integers(node, "dilations") or [1] * len(image)
        axes = [
            _window(node, axis, (size - 1) * rates[axis] + 1, image[axis], pooled[axis])
            for axis, size in zip(_space(node, len(image)), filters, strict=False)
        ]
        roles: list[Role] = [""] * len(tensors)
        roles[images_at], roles[result_at] = "image", "pooled"
        return Windows(tuple(roles[:-1]), roles[-1], tuple(axes), attrs=_unpadded(node))

    return rule


def pooling(*operands: Role, result: Role, maxima: bool) -> Rule:
    """Return the rule of pooling or of its gradient.

    Means do not count padding, so they have windows only without it.
    """

    def rule(node: Node) -> Windows | None:
        tensors = (*node.inputs, node.output)
        roles: list[Role] = [*operands, result]
        window = _integers(node, "ksize")
        image, pooled = (sizes(tensors[roles.index(role)]) for role in ("image", "pooled"))
        axes = [
            _window(node, axis, window[axis], image[axis], pooled[axis])
            for axis in _space(node, len(image))
        ]
        if not maxima and any(one.pads for one in axes):
            return None
        attrs = _unpadded(node)
        return Windows(operands, result, tuple(axes), "lowest" if maxima else "zero", attrs)

    return rule


def resolution(operand: Role, result: Role) -> Rule:
    """Return the rule of an op that repeats pixels, or moves them between space and channels.

    The image has a whole number of elements for each pooled one.
    """

    def rule(node: Node) -> Windows | None:
        shapes = {operand: sizes(node.inputs[0]), result: sizes(node.output)}
        axes = []
        for axis in _space(node, len(shapes["image"])):
            factor, rest = divmod(shapes["image"][axis], max(shapes["pooled"][axis], 1))
            if rest or not factor or (node.op.startswith("Resize") and not _exact(node, factor)):
                return None
            axes.append(Window(axis, factor, factor))
        others: list[Role] = [""] * (len(node.inputs) - 1)
        return Windows((operand, *others), result, tuple(axes))

    return rule


def interpolation(*operands: Role, result: Role) -> Rule:
    """Return the rule of bilinear interpolation, or of its gradient, along axes that it enlarges.

    The kernel computes weights in float32 from positions in the whole image. Only for powers of two
    are they the same everywhere.
    """

    def rule(node: Node) -> Windows | None:
        roles: list[Role] = [*operands, result]
        shapes = [sizes(one) for one in (*node.inputs, node.output)]
        image, pooled = (shapes[roles.index(role)] for role in ("image", "pooled"))
        if node.attrs.get("align_corners") or not node.attrs.get("half_pixel_centers"):
            return None
        axes = []
        for axis in _space(node, len(image)):
            factor, rest = divmod(image[axis], max(pooled[axis], 1))
            if not rest and factor and factor & (factor - 1) == 0:
                axes.append(Window(axis, factor, factor))
        return Windows(operands, result, tuple(axes), interpolates=True) if axes else None

    return rule


def _exact(node: Node, factor: int) -> bool:
    """Return whether the kernel repeats each pixel `factor` times, wherever it is.

    It multiplies the pixel's number by 1 / factor in float32, and rounds down. If float32 rounds
    1 / factor down, a multiple of `factor` may get the pixel before its own.
    """
    aligned = node.attrs.get("align_corners")
    return not aligned and float(np.float32(1) / np.float32(factor)) >= 1 / factor


def _window(node: Node, axis: int, size: int, image: int, pooled: int) -> Window:
    stride = (_integers(node, "strides") or [1] * (axis + 1))[axis]
    form = text_attr(node, "padding", "VALID")
    before = after = 0
    if form == "SAME":
        total = max((pooled - 1) * stride + size - image, 0)
        before, after = total // 2, total - total // 2
    elif form == "EXPLICIT":
        before, after = _integers(node, "explicit_paddings")[2 * axis : 2 * axis + 2]
    return Window(axis, size, stride, before, after)


def _space(node: Node, rank: int) -> range:
    return range(2, rank) if channels_first(node) else range(1, rank - 1)


def _integers(node: Node, key: str) -> list[int]:
    values = node.attrs.get(key)
    return [int(value) for value in values] if isinstance(values, Sequence) else []


def _unpadded(node: Node) -> dict[str, object]:
    """Return a node's attributes, changed so that it pads nothing."""
    return {key: _VALID.get(key, value) for key, value in node.attrs.items()}
