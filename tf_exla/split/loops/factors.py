"""The values that tensors of a loop have in an online reduction (`online_reduction.py`).

A value is a partial result, with the factors by which it is still to be multiplied after the loop.
Ops that are linear in an operand pass its factors on to their result, along their axis rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor

Axes = tuple[int | None, ...]
"""For each axis of a tensor, the axis of a factor that lies along it, or None."""


@dataclass(frozen=True)
class Factor:
    """A completed tensor by which a value is still to be multiplied or divided (`op`)."""

    op: str
    tensor: Tensor


@dataclass(frozen=True)
class Shift:
    """The factor exp(m - s), still missing from exp(x - m); m is result `largest` of the loop.

    `layout`: for each axis of x, the axis of m along it.
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
    """x - s, for which the body computes `value` = x - m with the running maximum m."""

    value: Tensor
    shift: Shift
    axes: Axes


@dataclass(frozen=True)
class Scaled:
    """A value that the body computes, and its postponed factors; without factors it is complete."""

    value: Tensor
    factors: tuple[tuple[Factor | Shift, Axes], ...] = ()


Value = Whole | Shifted | Scaled | None


def follow(rule: AxisRule, position: int, axes: Axes) -> Axes | None:
    """Return the axes of a factor of operand `position` along the result of a linear op.

    None if an axis of the factor is reduced, needed whole or merged with another axis: then it is
    not a factor of the result.
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
    """Return a tensor with its axes laid out as `axes` says; all other axes have size one."""
    order = [axis for axis in axes if axis is not None]
    shape = tuple(1 if axis is None else tensor.dims[axis] for axis in axes)
    if order != sorted(order):
        others = [axis for axis in range(len(tensor.dims)) if axis not in order]
        tensor = w.op("permute_dims", tensor, w.const([*others, *order]))
    return tensor if tensor.dims == shape else w.op("reshape", tensor, w.const(shape))


def finite(w: Builder, tensor: Tensor) -> Tensor:
    """Return what to subtract for a maximum: the maximum itself, or zero where it is not finite."""
    return w.op("where", w.op("isfinite", tensor), tensor, w.const(0, tensor.dtype))


def largest_finite(dtype: str) -> float:
    """Return the largest finite number of a floating-point dtype."""
    if dtype == "bfloat16":
        return (2 - 2.0**-7) * 2.0**127
    return float(np.finfo(dtype).max)


def wide(dtype: str) -> str:
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def keeps_precision(node: Node) -> bool:
    """Return whether a node is no cast to fewer bits, in which a partial result might overflow.

    Before its postponed factors are applied, a value may be larger than the complete one.
    """
    if node.op != "astype":
        return True
    before, after = node.inputs[0].dtype, node.output.dtype
    return after.startswith("float") and _BITS.get(before, 65) <= _BITS[after]


_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
