"""Values of a loop that streams: what a part of the data gives, and the factors still to come.

Ops that are linear in an operand pass its factors on, by their axis rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor

Axes = tuple[int | None, ...]
"""For each axis of a tensor the axis of a factor that runs along it."""


@dataclass(frozen=True)
class Factor:
    """A completed tensor by which a streamed value is to be multiplied, or divided: `op`."""

    op: str
    tensor: Tensor


@dataclass(frozen=True)
class Shift:
    """exp(m - s), by which exp(x - m) is to be multiplied; m is result `largest` of the loop.

    `layout`: axes of m along those of x.
    """

    largest: int
    layout: Axes
    shift: Tensor


@dataclass(frozen=True)
class Whole:
    """A completed tensor, read whole."""

    tensor: Tensor


@dataclass(frozen=True)
class Shifted:
    """x - s, streamed as x - m."""

    value: Tensor
    shift: Shift
    axes: Axes


@dataclass(frozen=True)
class Scaled:
    """A streamed value, and the factors that are still to come; without factors it is complete."""

    value: Tensor
    factors: tuple[tuple[Factor | Shift, Axes], ...] = ()


Value = Whole | Shifted | Scaled | None


def follow(rule: AxisRule, position: int, axes: Axes) -> Axes | None:
    """Return the axes of a factor of operand `position` along the result of a linear op.

    None where an axis of the factor is reduced, needed whole, or merged with another one: the
    factor is none of the result's.
    """
    operand = rule.operands[position]
    if operand is None:
        return None
    moved: list[int | None] = [None] * len(rule.results[0])
    for axis, own in zip(operand, axes, strict=True):
        if own is None:
            continue
        if axis is None or not axis.splittable or axis.block != 1:
            return None
        found = rule.result_axis(0, axis.label)
        if found is None or found[1].block != 1:
            return None
        moved[found[0]] = own
    return tuple(moved)


def spread(w: Builder, tensor: Tensor, axes: Axes) -> Tensor:
    """Return a tensor with its axes where `axes` says; all of its other axes have size one."""
    order = [axis for axis in axes if axis is not None]
    shape = tuple(1 if axis is None else tensor.dims[axis] for axis in axes)
    if order != sorted(order):
        others = [axis for axis in range(len(tensor.dims)) if axis not in order]
        tensor = w.op("permute_dims", tensor, w.const([*others, *order]))
    return tensor if tensor.dims == shape else w.op("reshape", tensor, w.const(shape))


def finite(w: Builder, tensor: Tensor) -> Tensor:
    """The shift that a maximum stands for: zero where it is not finite."""
    return w.op("where", w.op("isfinite", tensor), tensor, w.const(0, tensor.dtype))


def largest_finite(dtype: str) -> float:
    """Return the largest finite number of a floating-point dtype."""
    if dtype == "bfloat16":
        return (2 - 2.0**-7) * 2.0**127
    return float(np.finfo(dtype).max)


def wide(dtype: str) -> str:
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def cast(w: Builder, tensor: Tensor, dtype: str) -> Tensor:
    return tensor if tensor.dtype == dtype else w.op("astype", tensor, dtype=dtype)


def keeps_precision(node: Node) -> bool:
    """Whether a cast loses nothing: a streamed value may be larger than the complete one."""
    if node.op != "astype":
        return True
    before, after = node.inputs[0].dtype, node.output.dtype
    return after.startswith("float") and _BITS.get(before, 65) <= _BITS[after]


_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
