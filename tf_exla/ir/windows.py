"""Ops that read windows of an image: convolutions, pooling, and what changes the resolution.

Along an axis, element `p` of the pooled tensor belongs to a window: the `size` elements of the
image from `stride * p - before` on. Elements outside of the image are padding. An op computes the
pooled tensor from the image, or the image from the pooled tensor (transposed convolutions, most
gradients), or a third tensor from both (the gradient of filters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tf_exla.ir.graph import NO_ATTRS

Role = Literal["image", "pooled", ""]


@dataclass(frozen=True, slots=True)
class Window:
    """The windows along one axis of the image and of the pooled tensor.

    `size`: elements from the first to the last that a window reads, so it includes dilation.
    `before`, `after`: elements of padding.
    """

    axis: int
    size: int
    stride: int
    before: int = 0
    after: int = 0

    @property
    def pads(self) -> bool:
        return bool(self.before or self.after)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a node with one result.

    `operands`, `result`: the role of each tensor. `fill`: the value of padding, zero or, for
    maxima, the lowest number. `attrs`: the attributes with which the node pads nothing.
    `interpolates`: elements of the image are interpolated between elements of the pooled tensor,
    whose edges are repeated.
    """

    operands: tuple[Role, ...]
    result: Role
    axes: tuple[Window, ...]
    fill: Literal["zero", "lowest"] = "zero"
    attrs: Mapping[str, object] = field(default_factory=lambda: NO_ATTRS)
    interpolates: bool = False

    def along(self, axis: int) -> Window | None:
        """Return the windows along an axis, if it has any."""
        return next((one for one in self.axes if one.axis == axis), None)
