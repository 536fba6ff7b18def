"""The windows that convolutions and reductions over windows read, derived from their params."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tf_exla.frontends.jax.primitives.rules import params_of, with_params
from tf_exla.ir.graph import Node
from tf_exla.ir.windows import Role, Window, Windows
from tf_exla.vocabulary.rules.builders import sizes

Rule = Callable[[Node], Windows | None]


def convolution(node: Node) -> Windows | None:
    """Return the windows of a convolution, which may be the gradient of another convolution.

    The gradient of an image is a convolution with a dilated left operand. That of filters sums over
    the images of a batch, and has the gradient of the result as its filters.
    """
    how = params_of(node)["dimension_numbers"]
    if how.lhs_spec[1] == 0 and how.rhs_spec[1] == 0:
        return _filter_gradient(node)
    space = how.lhs_spec[2:]
    if how.lhs_spec[0] or how.out_spec[0] or how.out_spec[2:] != space:
        return None
    return _transposed(node) if max(params_of(node)["lhs_dilation"]) > 1 else _plain(node)


class _Axes:
    """The params of a convolution along each axis of space."""

    def __init__(self, node: Node) -> None:
        params = params_of(node)
        how = params["dimension_numbers"]
        self.axes: Sequence[int] = how.lhs_spec[2:]
        self.strides: Sequence[int] = params["window_strides"]
        self.before = [low for low, _ in params["padding"]]
        self.after = [high for _, high in params["padding"]]
        self.dilations: Sequence[int] = params["lhs_dilation"]
        self.rates: Sequence[int] = params["rhs_dilation"]
        filters = sizes(node.inputs[1])
        self.sizes = [
            (filters[axis] - 1) * rate + 1
            for axis, rate in zip(how.rhs_spec[2:], self.rates, strict=True)
        ]
        self.images = [sizes(node.inputs[0])[axis] for axis in self.axes]
        self.made = [sizes(node.output)[axis] for axis in how.out_spec[2:]]


def _plain(node: Node) -> Windows:
    its = _Axes(node)
    axes = map(Window, its.axes, its.sizes, its.strides, its.before, its.after)
    return Windows(("image", ""), "pooled", tuple(axes), attrs=_padded(node, [0] * len(its.axes)))


def _transposed(node: Node) -> Windows | None:
    """Each element of the left operand adds to a window of the result."""
    its = _Axes(node)
    if max(its.strides) > 1:
        return None
    axes = []
    for k, size in enumerate(its.sizes):
        before = size - 1 - its.before[k]
        full = (its.images[k] - 1) * its.dilations[k] + size
        after = full - its.made[k] - before
        axes.append(Window(its.axes[k], size, its.dilations[k], before, after))
    attrs = _padded(node, [size - 1 for size in its.sizes])
    return Windows(("pooled", ""), "image", tuple(axes), attrs=attrs)


def _filter_gradient(node: Node) -> Windows | None:
    params, its = params_of(node), _Axes(node)
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    if params["dimension_numbers"].rhs_spec[2:] != its.axes:
        return None
    if max(its.dilations) == 1:
        sizes_ = [(n - 1) * stride + 1 for n, stride in zip(its.made, its.strides, strict=True)]
        axes = map(Window, its.axes, sizes_, its.rates, its.before, its.after)
        attrs = _padded(node, [0] * len(sizes_))
        return Windows(("image", "pooled"), "", tuple(axes), attrs=attrs)
    if max((*its.strides, *its.rates)) > 1:
        return None
    others = [size - 1 - before for size, before in zip(its.made, its.before, strict=True)]
    axes = map(Window, its.axes, its.made, its.dilations, others, _rest(node, its, others))
    attrs = _padded(node, [size - 1 for size in its.made])
    return Windows(("pooled", "image"), "", tuple(axes), attrs=attrs)


def _rest(node: Node, its: _Axes, before: Sequence[int]) -> list[int]:
    """Return the padding after the image, the right operand, so that all windows are inside."""
    images = [sizes(node.inputs[1])[axis] for axis in its.axes]
    return [
        (n - 1) * stride + size - image - low
        for n, stride, size, image, low in zip(
            its.images, its.dilations, its.made, images, before, strict=True
        )
    ]


def reduction(*operands: Role, result: Role, fill: Any = "zero") -> Rule:
    """Return the rule of a reduction over windows, or of its gradient.

    `fill`: the value of padding; None: a node that pads has no rule.
    """

    def rule(node: Node) -> Windows | None:
        params = params_of(node)
        dilations = [*params.get("base_dilation", ()), *params.get("window_dilation", ())]
        axes = [
            Window(axis, size, stride, low, high)
            for axis, (size, stride, (low, high)) in enumerate(
                zip(
                    params["window_dimensions"],
                    params["window_strides"],
                    params["padding"],
                    strict=True,
                )
            )
            if (size, stride, low, high) != (1, 1, 0, 0)
        ]
        pads = any(one.pads for one in axes)
        if any(one > 1 for one in dilations) or any(not one.axis for one in axes):
            return None
        if pads and fill is None:
            return None
        attrs = with_params(node, padding=((0, 0),) * len(params["padding"]))
        return Windows(operands, result, tuple(axes), fill or "zero", {**node.attrs, **attrs})

    return rule


def _padded(node: Node, around: Sequence[int]) -> Mapping[str, object]:
    """Return a node's attributes with as much padding before as after each axis."""
    return {**node.attrs, **with_params(node, padding=tuple((size, size) for size in around))}
