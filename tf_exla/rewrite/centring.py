"""No product with a matrix that is one number off its diagonal.

The centring matrix I - 1 1ᵀ / n is the usual one: the trace of K H L H measures dependence, and
H K H is a kernel of centred features. A product with it subtracts means of rows or columns.
"""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.rewrite.algebra import (
    Factor,
    Scale,
    as_product,
    dense,
    is_float,
    reduce_sum,
    reshape,
    scale_of,
    scaled,
    strip,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.diagonal import FAMILY, as_diagonal, is_main, summed
from tf_exla.rewrite.rewrite import Proposals, Rewrite

Diagonal = Tensor | Scale
"""The numbers on a diagonal, or the number that all of them are."""


def product_with_uniform(site: RewriteContext, node: Node) -> Proposals:
    """a (diag(d) + c 1 1ᵀ) = a * dᵀ + c sum(a, 1) 1ᵀ, and from the left with sums of columns"""
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
    """diag_part(a b (diag(d) + c 1 1ᵀ)) = sum(a * (b * dᵀ + c sum(b, 1) 1ᵀ)ᵀ, 1), from the left too

    Without that, the diagonal and the sums of rows would both read the product a b.
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


def _applied(site: RewriteContext, factor: Factor, d: Diagonal, c: Scale, axis: int) -> Tensor:
    """Return a (diag(d) + c 1 1ᵀ) for axis -1, and (diag(d) + c 1 1ᵀ) a for axis -2."""
    a = dense(site, factor)
    total = scaled(site, reduce_sum(site, a, (len(a.dims) + axis,), keep=True), c)
    if isinstance(d, Scale):
        return site.emit("add", scaled(site, a, d), total)
    by = d if axis == -1 else reshape(site, d, (*d.dims, 1))
    return site.emit("add", site.emit("multiply", a, by), total)


def _uniform(site: RewriteContext, tensor: Tensor) -> tuple[Diagonal, Scale] | None:
    """Return d and c if a tensor is diag(d) + c 1 1ᵀ, a matrix, else None. It is symmetric."""
    outer, factor = strip(site, tensor)
    tensor = factor.tensor
    if not is_float(tensor) or len(tensor.dims) != 2 or tensor.dims[0] != tensor.dims[1]:
        return None
    node = site.maker(tensor, "add", "subtract", "matrix_set_diag")
    if node is None:
        return None
    found = _written(site, node) if node.op == "matrix_set_diag" else _sum(site, node)
    if found is None:
        return None
    d, c = found
    return (d * outer if isinstance(d, Scale) else scaled(site, d, outer)), c * outer


def _sum(site: RewriteContext, node: Node) -> tuple[Diagonal, Scale] | None:
    left, right = node.inputs
    sign = Scale(-1.0 if node.op == "subtract" else 1.0)
    for diagonal, rest, own, other in ((left, right, Scale(), sign), (right, left, sign, Scale())):
        scale, factor = strip(site, diagonal)
        d = as_diagonal(site, factor.tensor)
        c = _number(site, rest)
        if d is None or c is None or diagonal.shape != node.output.shape:
            continue
        same = _number(site, d)
        scale = scale * own
        return (scaled(site, d, scale) if same is None else same * scale), c * other
    return None


def _written(site: RewriteContext, node: Node) -> tuple[Diagonal, Scale] | None:
    """A matrix of one number with others written on its diagonal."""
    c = _number(site, node.inputs[0])
    if c is None or not is_main(node, 3):
        return None
    return site.emit("subtract", node.inputs[1], _scalar(site, c, node.output.dtype)), c


def _number(site: RewriteContext, tensor: Tensor) -> Scale | None:
    """Return the number that all elements of a tensor are; None if that is not known."""
    scale, factor = strip(site, tensor)
    tensor = factor.tensor
    node = site.maker(tensor, "full", "broadcast_to")
    if node is not None:
        tensor = node.inputs[1 if node.op == "full" else 0]
    if not is_float(tensor) or tensor.size != 1:
        return None
    number = scale_of(tensor)
    return None if number is None else number * scale


def _scalar(site: RewriteContext, scale: Scale, dtype: str) -> Tensor:
    return scaled(site, site.const(1.0, dtype), scale)


REWRITES = (
    Rewrite(FAMILY, diagonal_with_uniform, frozenset({"matrix_diag_part"})),
    Rewrite(FAMILY, product_with_uniform, frozenset({"matmul", "batch_matmul"}), copies=True),
)
