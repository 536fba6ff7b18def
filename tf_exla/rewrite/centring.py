"""Products with matrices d I + c 1 1ᵀ, which have one number off their diagonal, become sums.

The usual one is the centring matrix H = I - 1 1ᵀ / n: the trace of K H L H measures dependence, and
H K H is a kernel of centred features. A product with it subtracts means of rows or columns.
"""

from __future__ import annotations

import numpy as np

from tf_exla.ir.graph import Node, Tensor
from tf_exla.rewrite.algebra import (
    Factor,
    Scale,
    as_product,
    dense,
    is_float,
    is_usable,
    reduce_sum,
    scale_of,
    scaled,
    strip,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.diagonal import FAMILY, as_diagonal, is_main, summed
from tf_exla.rewrite.rewrite import Proposals, Rewrite


def product_with_uniform(site: RewriteContext, node: Node) -> Proposals:
    """a (d I + c 1 1ᵀ) = d a + c sum(a, 1) 1ᵀ, and from the left with sums of columns"""
    pair = as_product(site, node.output)
    if pair is None or min(node.output.dims[-2:]) < 2:
        return
    left, right = pair
    found = _uniform(site, right.tensor)
    if found is not None:
        yield _applied(site, left, *found, axis=-1)
    found = _uniform(site, left.tensor)
    if found is not None:
        yield _applied(site, right, *found, axis=-2)


def diagonal_with_uniform(site: RewriteContext, node: Node) -> Proposals:
    """diag_part(a b (d I + c 1 1ᵀ)) = sum(a * (d b + c sum(b, 1) 1ᵀ)ᵀ, 1), from the left too

    Otherwise the diagonal and the sums of rows would both read the product a b, so it would have to
    be computed.
    """
    if not is_main(node, 3):
        return
    scale, factor = strip(site, node.inputs[0])
    outer = as_product(site, factor.tensor)
    if outer is None or factor.shape[-1] != factor.shape[-2] or factor.shape[-1] < 2:
        return
    for (one, other), axis in ((outer, -1), (outer[::-1], -2)):
        found, inner = _uniform(site, other.tensor), as_product(site, one.tensor)
        if found is None or inner is None:
            continue
        left, right = (inner[1].flipped, inner[0].flipped) if one.transposed else inner
        if axis == -1:
            right = Factor(_applied(site, right, *found, axis))
        else:
            left = Factor(_applied(site, left, *found, axis))
        yield scaled(site, summed(site, left, right), scale)
        return


def _applied(site: RewriteContext, factor: Factor, d: Scale, c: Scale, axis: int) -> Tensor:
    """Return a (d I + c 1 1ᵀ) for axis -1, and (d I + c 1 1ᵀ) a for axis -2."""
    a = dense(site, factor)
    total = scaled(site, reduce_sum(site, a, (len(a.dims) + axis,), keep=True), c)
    return site.emit("add", scaled(site, a, d), total)


def _uniform(site: RewriteContext, tensor: Tensor) -> tuple[Scale, Scale] | None:
    """Return d and c if a tensor is a matrix d I + c 1 1ᵀ, else None.

    Also None if its diagonal d + c may be small beside c, since sums would cancel (`_cancels`).
    """
    outer, factor = strip(site, tensor)
    tensor = factor.tensor
    if not is_float(tensor) or len(tensor.dims) != 2 or tensor.dims[0] != tensor.dims[1]:
        return None
    node = site.maker(tensor, "add", "subtract", "matrix_set_diag")
    if node is None:
        return None
    found = _written(site, node) if node.op == "matrix_set_diag" else _sum(site, node)
    if found is None or _cancels(*found):
        return None
    d, c = found
    return d * outer, c * outer


def _sum(site: RewriteContext, node: Node) -> tuple[Scale, Scale] | None:
    left, right = node.inputs
    sign = Scale(-1.0 if node.op == "subtract" else 1.0)
    for diagonal, rest, own, other in ((left, right, Scale(), sign), (right, left, sign, Scale())):
        scale, factor = strip(site, diagonal)
        d = as_diagonal(site, factor.tensor)
        if d is None or diagonal.shape != node.output.shape:
            continue
        c, same = _number(site, rest), _number(site, d)
        if c is not None and same is not None:
            return same * scale * own, c * other
    return None


def _written(site: RewriteContext, node: Node) -> tuple[Scale, Scale] | None:
    """Match a matrix of one number with another one added on its diagonal (`plus_diagonal`)."""
    matrix, written = node.inputs[:2]
    c, total = _number(site, matrix), site.maker(written, "add", "subtract")
    if c is None or total is None or not is_main(node, 3):
        return None
    old, d = site.maker(total.inputs[0], "matrix_diag_part"), total.inputs[1]
    if old is None or old.inputs[0] is not matrix or d.shape != written.shape:
        return None
    sign = Scale(-1.0 if total.op == "subtract" else 1.0)
    same = _number(site, d)
    return None if same is None else (same * sign, c)


def _cancels(d: Scale, c: Scale) -> bool:
    """Return whether a diagonal d + c may be small beside c.

    Example: x (1 1ᵀ - I) sums all elements but one, since the diagonal is zero. The rewrite would
    compute it as the sum of all elements minus that one. If that one is by far the largest, the
    difference has no correct digit. If d or c is known only at run time, this may be the case.
    """
    off = _folded(c)
    total = _folded(d) + off
    return total is None or abs(total.number) < abs(off.number) / 2


def _folded(scale: Scale) -> Scale:
    """Return a scalar with its constant tensors multiplied into `number`."""
    number, known = scale.number, (*scale.times, *scale.over)
    for k, tensor in enumerate(known):
        if tensor.value is not None:
            value = float(tensor.value.reshape(()))
            number = number * value if k < len(scale.times) else number / value
    times, over = (tuple(t for t in part if t.value is None) for part in (scale.times, scale.over))
    return Scale(number, times, over)


def _number(site: RewriteContext, tensor: Tensor) -> Scale | None:
    """Return the number that all elements of a tensor are equal to; None if it has none."""
    scale, factor = strip(site, tensor)
    tensor = factor.tensor
    node = site.maker(tensor, "full", "broadcast_to")
    if node is not None:
        tensor = node.inputs[1 if node.op == "full" else 0]
    if not is_float(tensor) or not tensor.size:
        return None
    if tensor.value is not None and tensor.size > 1:  # as of a small `eye`, folded to a constant
        first = tensor.value.ravel()[0].item()
        usable = np.all(tensor.value == first) and is_usable(first, tensor.dtype)
        return Scale(first) * scale if usable else None
    number = scale_of(tensor) if tensor.size == 1 else None
    return None if number is None else number * scale


REWRITES = (
    Rewrite(FAMILY, diagonal_with_uniform, frozenset({"matrix_diag_part"})),
    Rewrite(FAMILY, product_with_uniform, frozenset({"matmul", "batch_matmul"}), copies=True),
)
