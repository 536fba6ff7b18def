"""The shared vocabulary of patterns: products, scalars, transposes, sums of terms.

Only float32 and float64 are rewritten. In half precision, moved factors could overflow or round too
much, and complex products may be adjoint. Identities hold for finite values. Values that are not
finite stay so, but an infinity may become NaN. Scales that keep numbers in range are not moved
(`normalization.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.normalization import normalizes

FLOATS = frozenset({"float32", "float64"})
SUMS = frozenset({"add", "add_n", "subtract"})


def is_float(tensor: Tensor) -> bool:
    """Return whether rewrites of arithmetic may touch a tensor: static, float32 or float64."""
    return tensor.dtype in FLOATS and tensor.is_static


def half_reason(tensor: Tensor) -> str:
    """Return the reason why arithmetic on `tensor` is not rewritten."""
    return f"{tensor.dtype} is not rewritten: only float32 and float64 are"


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix, or a batch of matrices, optionally with its last two axes exchanged."""

    tensor: Tensor
    transposed: bool = False

    @property
    def flipped(self) -> Factor:
        return Factor(self.tensor, not self.transposed)

    @property
    def shape(self) -> tuple[int, ...]:
        *batch, rows, columns = self.tensor.dims
        return (*batch, columns, rows) if self.transposed else (*batch, rows, columns)


@dataclass(frozen=True, slots=True)
class Scale:
    """A scalar: `number`, times the one-element tensors `times`, divided by those in `over`."""

    number: float = 1.0
    times: tuple[Tensor, ...] = ()
    over: tuple[Tensor, ...] = ()

    def __mul__(self, other: Scale) -> Scale:
        return Scale(self.number * other.number, self.times + other.times, self.over + other.over)

    @property
    def is_one(self) -> bool:
        return self.number == 1.0 and not self.times and not self.over

    def __add__(self, other: Scale) -> Scale | None:
        """Return the sum of two scalars that differ only in `number`; None for others."""
        if self.tensors() != other.tensors():
            return None
        return Scale(self.number + other.number, self.times, self.over)

    def tensors(self) -> tuple[Counter[Tensor], Counter[Tensor]]:
        """Return how often each tensor multiplies and divides."""
        return Counter(self.times), Counter(self.over)


def is_usable(number: float, dtype: str) -> bool:
    """Return whether a rewrite may move a scalar: it is finite, and far from over- and underflow.

    Neither its square nor the square of its inverse may overflow.
    """
    info = np.finfo(dtype)
    bound = math.sqrt(float(info.max))
    return number == number and 1 / bound < abs(number) < bound


def as_product(site: RewriteContext, tensor: Tensor) -> tuple[Factor, Factor] | None:
    """Return the two factors if `tensor` is a float32 or float64 product of matrices."""
    node = site.maker(tensor, "matmul", "batch_matmul")
    if node is None or not is_float(tensor) or len(node.inputs) != 2:
        return None
    if not all(is_float(operand) and len(operand.dims) >= 2 for operand in node.inputs):
        return None
    names = ("transpose_a", "transpose_b") if node.op == "matmul" else ("adj_x", "adj_y")
    left, right = (bool(node.attrs.get(name)) for name in names)
    return Factor(node.inputs[0], left), Factor(node.inputs[1], right)


def as_transpose(site: RewriteContext, tensor: Tensor) -> Tensor | None:
    """Return the tensor of which `tensor` is the transpose, in its last two axes only."""
    node = site.maker(tensor, "permute_dims")
    order = permutation(node) if node is not None else None
    if order is None or len(order) < 2:
        return None
    plain = list(range(len(order)))
    plain[-2:] = plain[-1], plain[-2]
    assert node is not None
    return node.inputs[0] if order == plain else None


def permutation(node: Node) -> list[int] | None:
    """Return the axes of a Transpose if they are static."""
    if len(node.inputs) != 2 or node.inputs[1].value is None or not node.inputs[0].is_static:
        return None
    return [int(axis) % len(node.inputs[0].dims) for axis in node.inputs[1].value.ravel()]


def as_scaled(site: RewriteContext, tensor: Tensor) -> tuple[Scale, Tensor] | None:
    """Return the scalar and the tensor of `-x`, `s x`, `x s`, `x / s`."""
    node = site.maker(tensor, "negative", "multiply", "divide")
    if node is None or not is_float(tensor):
        return None
    if node.op == "negative":
        return Scale(-1.0), node.inputs[0]
    left, right = node.inputs
    pairs = [(right, left)] if node.op == "divide" else [(left, right), (right, left)]
    for scalar, rest in pairs:
        if not scalar.is_static or scalar.size != 1 or rest.shape != tensor.shape:
            continue
        if rest.size == 1 and node.op == "multiply" and scalar.value is None:
            continue  # both operands are scalars, so there is no larger one
        if normalizes(site, scalar, rest, node.op == "divide"):
            continue
        scale = scale_of(scalar, node.op == "divide")
        if scale is not None:
            return scale, rest
    return None


def scale_of(scalar: Tensor, divides: bool = False) -> Scale | None:
    """Return a tensor of one element as a scalar; None if its number is not `is_usable`.

    `divides`: return 1 / tensor instead.
    """
    if scalar.value is None:
        return Scale(over=(scalar,)) if divides else Scale(times=(scalar,))
    number = float(scalar.value.reshape(()))
    if not is_usable(number, scalar.dtype):
        return None
    if divides and math.frexp(abs(number))[0] != 0.5:
        return Scale(over=(scalar,))  # 1 / number would round
    return Scale(1.0 / number if divides else number)


def strip(
    site: RewriteContext, tensor: Tensor, passed: list[Tensor] | None = None
) -> tuple[Scale, Factor]:
    """Return the scalar and the matrix that remain of a tensor without scalings and transposes.

    The tensors of the scalings and transposes are appended to `passed`.
    """
    scale, transposed = Scale(), False
    while True:
        if passed is not None:
            passed.append(tensor)
        scaled = as_scaled(site, tensor)
        if scaled is not None:
            scale, tensor = scale * scaled[0], scaled[1]
            continue
        inner = as_transpose(site, tensor)
        if inner is None:
            return scale, Factor(tensor, transposed)
        tensor, transposed = inner, not transposed


# Helpers that emit nodes of replacements.


def reshape(site: RewriteContext, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tensor.dims == shape:
        return tensor
    return site.emit("reshape", tensor, site.axes(shape))


def scaled(site: RewriteContext, tensor: Tensor, scale: Scale) -> Tensor:
    """Return scale · tensor."""
    if scale.is_one:
        return tensor
    if not is_usable(scale.number, tensor.dtype):
        raise Refusal(f"the scalars multiply to {scale.number}, zero or far from one")
    if scale.number == -1.0 and not scale.times and not scale.over:
        return site.emit("negative", tensor)
    dtype = tensor.dtype
    factor: Tensor | None = None
    for each in scale.times:
        plain = reshape(site, each, ())
        factor = plain if factor is None else site.emit("multiply", factor, plain)
    for each in scale.over:
        plain = reshape(site, each, ())
        if factor is None and scale.number != 1.0:
            factor = site.const(scale.number, dtype)
            scale = Scale(1.0, scale.times, scale.over)
        if factor is None and len(scale.over) == 1:
            return site.emit("divide", tensor, plain)
        one = factor if factor is not None else site.const(1.0, dtype)
        factor = site.emit("divide", one, plain)
    if scale.number != 1.0:
        number = site.const(scale.number, dtype)
        factor = number if factor is None else site.emit("multiply", number, factor)
    assert factor is not None
    return site.emit("multiply", tensor, factor)


def transposed(site: RewriteContext, tensor: Tensor) -> Tensor:
    """Exchange the last two axes."""
    *batch, rows, columns = range(len(tensor.dims))
    if min(tensor.dims[-2:]) == 1:
        *sizes, r, c = tensor.dims
        return reshape(site, tensor, (*sizes, c, r))
    return site.emit("permute_dims", tensor, site.axes((*batch, columns, rows)))


def dense(site: RewriteContext, factor: Factor) -> Tensor:
    """Return a factor as a tensor of its shape."""
    return transposed(site, factor.tensor) if factor.transposed else factor.tensor


def product(site: RewriteContext, left: Factor, right: Factor) -> Tensor:
    """Return the product of two factors."""
    if len(left.tensor.dims) == 2 == len(right.tensor.dims):
        return site.emit(
            "matmul",
            left.tensor,
            right.tensor,
            transpose_a=left.transposed,
            transpose_b=right.transposed,
        )
    return site.emit(
        "batch_matmul",
        left.tensor,
        right.tensor,
        adj_x=left.transposed,
        adj_y=right.transposed,
    )


def reduce_sum(site: RewriteContext, tensor: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return site.emit("sum", tensor, site.axes(axes), keep_dims=keep)


def sum_axes(node: Node) -> tuple[frozenset[int], bool] | None:
    """Return the axes of a Sum, if they are static, and whether it keeps them."""
    if len(node.inputs) != 2 or node.inputs[1].value is None or not node.inputs[0].is_static:
        return None
    count = len(node.inputs[0].dims)
    axes = frozenset(int(axis) % count for axis in node.inputs[1].value.ravel()) if count else ()
    return frozenset(axes), bool(node.attrs.get("keep_dims"))


def adds_as_product(site: RewriteContext, operand: Tensor, axes: frozenset[int]) -> bool:
    """Return whether a sum over `axes` may become a product with ones without a larger error.

    Kernels sum rows in a tree, and products sum sequentially. In float32 the difference matters
    from about 100,000 numbers of one sign on. Columns are summed sequentially in any case.
    """
    last = len(operand.dims) - 1
    if site.ops.rounds_factors(operand.dtype):
        return False
    return (
        operand.dtype == "float64" or last not in axes or operand.dims[last] <= SETTINGS.summed_row
    )
