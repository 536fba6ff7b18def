"""Rewrites that avoid dense matrices of which only the diagonal is read or given."""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.rewrite.algebra import (
    Factor,
    as_product,
    as_scaled,
    dense,
    is_float,
    reduce_sum,
    reshape,
    scaled,
    strip,
    sum_axes,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.normalization import normalizes
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "diagonals"


def is_main(node: Node, operands: int) -> bool:
    """Return whether an op reads or writes the main diagonal.

    It must have `operands` operands, of which the last, the padding, is a constant.
    """
    if len(node.inputs) != operands or any(t.value is None for t in node.inputs[-1:]):
        return False
    k = node.inputs[1 if node.op != "matrix_set_diag" else 2]
    return k.value is not None and k.value.size == 1 and int(k.value.reshape(())) == 0


def as_diagonal(site: RewriteContext, tensor: Tensor) -> Tensor | None:
    """Return d if `tensor` is diag(d), square, with zeros elsewhere, float32 or float64."""
    node = site.maker(tensor, "matrix_diag")
    if node is None or not is_float(tensor) or not is_main(node, 5):
        return None
    d, _, _, _, padding = node.inputs
    if padding.value is None or float(padding.value.reshape(())) != 0.0:
        return None
    return d if d.is_static and tensor.dims == (*d.dims, d.dims[-1]) else None


def scaling_vector(site: RewriteContext, tensor: Tensor) -> tuple[Tensor, Tensor, bool] | None:
    """Return (d, A, whether d scales rows) for `A * d[:, None]`, `A * d` and quotients, else None.

    For a quotient, d is the divisor.
    """
    node = site.maker(tensor, "multiply", "divide")
    if node is None or not is_float(tensor) or len(tensor.dims) < 2:
        return None
    rows, columns = tensor.dims[-2:]
    if rows == 1 or columns == 1:
        return None
    left, right = node.inputs
    pairs = [(right, left)] if node.op == "divide" else [(left, right), (right, left)]
    for vector, rest in pairs:
        if rest.shape != tensor.shape or not vector.is_static:
            continue
        sizes = _padded(vector)
        if sizes[-2:] not in ((rows, 1), (1, columns)):
            continue
        if not normalizes(site, vector, rest, node.op == "divide"):
            return vector, rest, sizes[-1] == 1
    return None


def _padded(vector: Tensor) -> tuple[int, ...]:
    return (1,) * (2 - len(vector.dims)) + vector.dims


def as_scaling(site: RewriteContext, tensor: Tensor) -> tuple[Tensor, Tensor, bool] | None:
    """Return (d, A, whether d is on the left) for a matrix diag(d) A or A diag(d), else None."""
    found = scaling_vector(site, tensor)
    if found is None:
        return None
    vector, rest, on_left = found
    *batch, rows, columns = _padded(vector)
    vector = reshape(site, vector, (*batch, rows if on_left else columns))
    node = site.maker(tensor, "divide")
    return vector if node is None else inverse(site, vector), rest, on_left


def inverse(site: RewriteContext, tensor: Tensor) -> Tensor:
    """Return 1 / tensor. TensorFlow's kernel for reciprocals is inexact for large numbers."""
    return site.emit("divide", site.const(1, tensor.dtype), tensor)


def diagonal_of_product(site: RewriteContext, node: Node) -> Proposals:
    """diag_part(a b) = sum(a * bᵀ, -1)"""
    if not is_main(node, 3):
        return
    scale, factor = strip(site, node.inputs[0])
    pair = as_product(site, factor.tensor)
    if pair is None:
        return
    *_, rows, columns = factor.shape
    if rows != columns:
        yield Refusal(f"the product is {rows} by {columns}: only square ones are read so")
        return
    yield scaled(site, summed(site, *pair), scale)


def summed(site: RewriteContext, left: Factor, right: Factor) -> Tensor:
    """Return the diagonal of a product without the product."""
    if left.transposed and not right.transposed:  # both are read along the rows
        terms, axis = site.emit("multiply", left.tensor, right.tensor), -2
    else:
        terms, axis = site.emit("multiply", dense(site, left), dense(site, right.flipped)), -1
    return reduce_sum(site, terms, (len(terms.dims) + axis,), keep=False)


def diagonal_of_diagonal(site: RewriteContext, node: Node) -> Proposals:
    """diag_part(diag(d)) = d"""
    d = as_diagonal(site, node.inputs[0])
    if d is not None and is_main(node, 3):
        yield d


def diagonal_of_pointwise(site: RewriteContext, node: Node) -> Proposals:
    """diag_part(a + b) = diag_part(a) + diag_part(b), also for differences, products, quotients"""
    inner = site.maker(node.inputs[0], *_POINTWISE)
    if (
        inner is None
        or not is_main(node, 3)
        or not all(map(is_float, (*inner.inputs, inner.output)))
    ):
        return
    *_, rows, columns = inner.output.dims
    if rows == columns > 1:
        parts = [_diagonal_part(site, operand, node) for operand in inner.inputs]
        yield site.emit(inner.op, *parts)


_POINTWISE = ("add", "subtract", "multiply", "divide", "negative")


def _diagonal_part(site: RewriteContext, tensor: Tensor, node: Node) -> Tensor:
    """Return the diagonal of an operand of the matrix of which `node` reads the diagonal.

    An operand that is broadcast to that matrix, a row or column, is its own diagonal.
    """
    *batch, rows, columns = _padded(tensor)
    if rows == columns > 1:
        return site.emit("matrix_diag_part", tensor, *node.inputs[1:])
    return reshape(site, tensor, (*batch, max(rows, columns)))


def plus_diagonal(site: RewriteContext, node: Node) -> Proposals:
    """a + diag(d) = a with diag_part(a) + d on its diagonal, a - diag(d) likewise"""
    out = node.output
    if not is_float(out) or len(node.inputs) != 2:
        return
    left, right = node.inputs
    pairs = [(left, right)] if node.op == "subtract" else [(left, right), (right, left)]
    for rest, other in pairs:
        scale, factor = strip(site, other)
        d = as_diagonal(site, factor.tensor)
        if d is None:
            continue
        if not rest.shape == other.shape == out.shape:  # diag of one element is 1 by 1
            yield Refusal(f"one of {rest} and diag({d}) is broadcast to {out}")
            continue
        zero = site.const(0, "int32")
        old = site.emit("matrix_diag_part", rest, zero, site.const(0, out.dtype))
        moved = site.emit("add" if node.op == "add" else "subtract", old, scaled(site, d, scale))
        yield site.emit("matrix_set_diag", rest, moved, zero)
        return


def scaled_diagonal(site: RewriteContext, node: Node) -> Proposals:
    """s diag(d) = diag(s d)"""
    found = as_scaled(site, node.output)
    d = as_diagonal(site, found[1]) if found is not None else None
    if found is None or d is None:
        return
    yield _diagonal(site, scaled(site, d, found[0]))


def sum_of_diagonal(site: RewriteContext, node: Node) -> Proposals:
    """sum(diag(d), 0) = sum(diag(d), 1) = d, and sum(d) over both"""
    d = as_diagonal(site, node.inputs[0])
    found = sum_axes(node)
    if d is None or found is None:
        return
    axes, _ = found
    count = len(node.inputs[0].dims)
    if axes in ({count - 1}, {count - 2}):
        yield reshape(site, d, node.output.dims)
    elif axes == {count - 1, count - 2}:
        yield reshape(site, reduce_sum(site, d, (count - 2,), keep=False), node.output.dims)


def product_of_diagonals(site: RewriteContext, node: Node) -> Proposals:
    """diag(c) diag(d) = diag(c d)"""
    pair = as_product(site, node.output)
    if pair is None:
        return
    c, d = (as_diagonal(site, factor.tensor) for factor in pair)
    if c is not None and d is not None:
        yield _diagonal(site, site.emit("multiply", c, d))


def _diagonal(site: RewriteContext, d: Tensor) -> Tensor:
    whole = site.const(-1, "int32")
    zero = site.const(0, "int32")
    return site.emit("matrix_diag", d, zero, whole, whole, site.const(0, d.dtype))


REWRITES = (
    Rewrite(FAMILY, diagonal_of_diagonal, frozenset({"matrix_diag_part"})),
    Rewrite(FAMILY, diagonal_of_product, frozenset({"matrix_diag_part"}), copies=True),
    Rewrite(FAMILY, diagonal_of_pointwise, frozenset({"matrix_diag_part"})),
    Rewrite(FAMILY, plus_diagonal, frozenset({"add", "subtract"})),
    Rewrite(FAMILY, scaled_diagonal, frozenset({"multiply", "negative", "divide"})),
    Rewrite(FAMILY, sum_of_diagonal, frozenset({"sum"})),
    Rewrite(FAMILY, product_of_diagonals, frozenset({"matmul", "batch_matmul"})),
)
