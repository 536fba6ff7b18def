"""The naive squared Euclidean distance is expanded, so that no tensor of all differences is needed.

In the expanded form |x|² + |y|² - 2 x y, terms cancel: its error is relative to |x|² + |y|², not to
|x - y|². For points that are far apart on the scale of the cloud this is rounding error. For nearly
equal points it is more, and the graph does not show which case holds. So the family is off by
default. If it is on:

- the points are centred first, so that the scale is that of the cloud, not of its distance from
  the origin;
- float32 is computed in float64, where products of float32 numbers are exact: the result is good
  to float32's rounding for distances down to about 1e-4 of the cloud's radius;
- the result is clamped at zero, unless there are weights, which may be negative.

If only an exponential reads float32 distances, the error is below the original's, even in a cloud
10,000 lengthscales wide (`docs/accuracy.md`): there only the absolute error of the distance
matters. In float64 the error is not below, and in float32 there is no gain in time: chunks of
differences in up to 24 dimensions took 0.6 to 1.2 times as long as the expanded form.

It does not apply where axes interleave, where the weights vary over the points, or where the
product would be no smaller than the differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.rewrite.algebra import (
    Factor,
    Scale,
    as_scaled,
    is_float,
    product,
    reduce_sum,
    reshape,
    scaled,
    sum_axes,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "naive-distance"


@dataclass(frozen=True)
class _Difference:
    """scale · sum of weight · (x ± y)²; weights, factors and divisors lie along the summed axis."""

    x: Tensor
    y: Tensor
    plus: bool
    weights: tuple[Tensor, ...]  # multiply the squares
    factors: tuple[Tensor, ...]  # multiply the differences
    divisors: tuple[Tensor, ...]  # divide the differences
    scale: Scale


def naive_distance(site: RewriteContext, node: Node) -> Proposals:
    """sum(w (x - y)²) = sum(w x²) + sum(w y²) - 2 (w x) yᵀ, centred, clamped at zero"""
    found = sum_axes(node)
    operand = node.inputs[0]
    if found is None or not is_float(operand) or len(found[0]) != 1 or operand.size == 0:
        return
    (axis,) = found[0]
    difference = _difference(site, operand, axis)
    if difference is None:
        return
    plan = _layout(difference, operand, axis)
    if isinstance(plan, Refusal):
        yield plan
        return
    made = _expanded(site, difference, plan)
    yield reshape(site, made, node.output.dims)


def _difference(site: RewriteContext, tensor: Tensor, axis: int) -> _Difference | None:
    """Match a weighted square of a difference that is summed over `axis`; None for others."""
    weights: list[Tensor] = []
    scale = Scale()
    while (under := _scaling(site, tensor, axis)) is not None:
        one, vector, divides, tensor = under
        if divides:
            return None
        scale = scale * one
        weights += [vector] if vector is not None else []
    inner = _square(site, tensor)
    if inner is None:
        return None
    if isinstance(inner, tuple):
        return _Difference(*inner, False, tuple(weights), (), (), scale)
    factors: list[Tensor] = []
    divisors: list[Tensor] = []
    while (under := _scaling(site, inner, axis)) is not None:
        one, vector, divides, inner = under
        scale = scale * one * one
        if vector is not None:
            (divisors if divides else factors).append(vector)
    node = site.maker(inner, "subtract", "add")
    if node is None or node.inputs[0] is node.inputs[1]:
        return None
    x, y = node.inputs
    plus = node.op == "add"
    return _Difference(x, y, plus, tuple(weights), tuple(factors), tuple(divisors), scale)


def _square(site: RewriteContext, tensor: Tensor) -> Tensor | tuple[Tensor, Tensor] | None:
    """Return the tensor that is squared, or both operands of a `squared_difference`, or None."""
    node = site.maker(tensor, "square", "multiply", "pow", "squared_difference")
    if node is None:
        return None
    if node.op == "squared_difference":
        return node.inputs[0], node.inputs[1]
    if node.op == "square":
        return node.inputs[0]
    base, other = node.inputs
    if node.op == "multiply":
        return base if base is other else None
    is_two = other.value is not None and other.value.size == 1 and float(other.value) == 2.0
    return base if is_two and base.shape == tensor.shape else None


def _scaling(
    site: RewriteContext, tensor: Tensor, axis: int
) -> tuple[Scale, Tensor | None, bool, Tensor] | None:
    """Match a tensor scaled by a scalar, or by a vector along the summed axis.

    Return the scalar, the vector (None if there is none), whether it divides, and the tensor.
    """
    found = as_scaled(site, tensor)
    if found is not None:
        return found[0], None, False, found[1]
    node = site.maker(tensor, "multiply", "divide")
    if node is None or node.inputs[0] is node.inputs[1]:
        return None
    left, right = node.inputs
    pairs = [(right, left)] if node.op == "divide" else [(left, right), (right, left)]
    for vector, rest in pairs:
        if rest.shape != tensor.shape or not vector.is_static:
            continue
        sizes = (1,) * (len(tensor.dims) - len(vector.dims)) + vector.dims
        if all(size == 1 or at == axis for at, size in enumerate(sizes)) and vector.size > 1:
            return Scale(), vector, node.op == "divide", rest
    return None


@dataclass(frozen=True)
class _Layout:
    """The layout of a tensor of distances between two clouds of points.

    `batch`: sizes of the batch axes. `left`, `right`: the numbers of points. `depth`: their
    dimension. `axis`, `rank`: the axis of the coordinates in the tensor of differences, and its
    rank. `swapped`: y is the left cloud.
    """

    batch: tuple[int, ...]
    left: int
    right: int
    depth: int
    axis: int
    rank: int
    swapped: bool


def _layout(difference: _Difference, out: Tensor, axis: int) -> _Layout | Refusal:
    rank = len(out.dims)

    def sizes(tensor: Tensor) -> tuple[int, ...]:
        return (1,) * (rank - len(tensor.dims)) + tensor.dims

    x, y = sizes(difference.x), sizes(difference.y)
    kinds = ""
    for at, size in enumerate(out.dims):
        if at == axis:
            if x[at] != size or y[at] != size:
                return Refusal("one of the points is broadcast along the summed axis")
        elif size > 1:
            kinds += "b" if x[at] == y[at] else "x" if x[at] == size else "y"
        elif "x" not in kinds and "y" not in kinds:
            kinds += "b"
    plain = kinds.lstrip("b")
    if set(plain) != {"x", "y"} or plain not in (
        "x" * plain.count("x") + "y" * plain.count("y"),
        "y" * plain.count("y") + "x" * plain.count("x"),
    ):
        return Refusal(
            f"the axes of {difference.x} and {difference.y} are no batch, then rows, then columns"
        )
    batch = tuple(
        out.dims[at] for at in [a for a in range(rank) if a != axis][: len(kinds) - len(plain)]
    )
    left = math.prod(x) // math.prod(batch) // out.dims[axis]
    right = math.prod(y) // math.prod(batch) // out.dims[axis]
    swapped = plain[0] == "y"
    if swapped:
        left, right = right, left
    return _Layout(batch, left, right, out.dims[axis], axis, rank, swapped)


def _expanded(site: RewriteContext, difference: _Difference, plan: _Layout) -> Tensor:
    x, y = difference.x, difference.y
    if plan.swapped:
        x, y = y, x
    if difference.plus:
        y = site.emit("negative", y)
    dtype = x.dtype
    a, b = (
        _points(site, tensor, plan, count) for tensor, count in ((x, plan.left), (y, plan.right))
    )
    for tensors, op in ((difference.factors, "multiply"), (difference.divisors, "divide")):
        for vector in tensors:
            wide = _wide(site, reshape(site, vector, (plan.depth,)))
            a, b = site.emit(op, a, wide), site.emit(op, b, wide)
    centre = _centre(site, a, plan)
    a, b = site.emit("subtract", a, centre), site.emit("subtract", b, centre)
    weighted = b
    for vector in difference.weights:
        weighted = site.emit(
            "multiply", weighted, _wide(site, reshape(site, vector, (plan.depth,)))
        )
    left = a
    for vector in difference.weights:
        left = site.emit("multiply", left, _wide(site, reshape(site, vector, (plan.depth,))))
    last = len(plan.batch) + 1
    rows = reduce_sum(site, site.emit("multiply", left, a), (last,), keep=True)
    columns = reduce_sum(site, site.emit("multiply", weighted, b), (last,), keep=True)
    one = site.const(1.0, a.dtype)
    ones = [
        site.emit("full", site.axes((*plan.batch, count, 1)), one)
        for count in (plan.left, plan.right)
    ]
    end = site.const(-1, "int32")
    minus = scaled(site, weighted, Scale(-2.0))
    wide_a = site.emit("concat", a, rows, ones[0], end)
    wide_b = site.emit("concat", minus, ones[1], columns, end)
    inside = difference.scale.number > 0 and not difference.scale.times + difference.scale.over
    if inside:
        wide_b = scaled(site, wide_b, difference.scale)
    squares = product(site, Factor(wide_a), Factor(wide_b, True))
    if squares.dtype != dtype:
        squares = site.emit("astype", squares, dtype=dtype)
    if not difference.weights:  # weights may be negative
        squares = site.emit("maximum", squares, site.const(0.0, dtype))
    return squares if inside else scaled(site, squares, difference.scale)


def _points(site: RewriteContext, tensor: Tensor, plan: _Layout, count: int) -> Tensor:
    """Return points as [*batch, count, depth], in float64."""
    sizes = (1,) * (plan.rank - len(tensor.dims)) + tensor.dims
    if plan.axis != plan.rank - 1:
        order = [*(at for at in range(plan.rank) if at != plan.axis), plan.axis]
        tensor = site.emit("permute_dims", reshape(site, tensor, sizes), site.axes(order))
    return _wide(site, reshape(site, tensor, (*plan.batch, count, plan.depth)))


def _wide(site: RewriteContext, tensor: Tensor) -> Tensor:
    if tensor.dtype == "float64":
        return tensor
    return site.emit("astype", tensor, dtype="float64")


def _centre(site: RewriteContext, points: Tensor, plan: _Layout) -> Tensor:
    """Return the mean of the points, or 0 where it is not finite.

    Otherwise a NaN in one point would spread to all of them.
    """
    axis = len(plan.batch)
    total = reduce_sum(site, points, (axis,), keep=True)
    mean = site.emit("divide", total, site.const(np.float64(plan.left), points.dtype))
    origin = site.const(0.0, points.dtype)
    return site.emit("where", site.emit("isfinite", mean), mean, origin)


REWRITES = (Rewrite(FAMILY, naive_distance, frozenset({"sum"})),)
