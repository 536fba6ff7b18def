"""Clean-up: replace equivalent expressions by one normal form, and remove needless nodes."""

from __future__ import annotations

import numpy as np

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import MATRIX_PRODUCTS, RESHAPES
from tf_exla.rewrite.algebra import (
    FLOATS,
    as_product,
    as_transpose,
    half_reason,
    is_float,
    is_usable,
    permutation,
    reshape,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Propose, Rewrite

FAMILY = "cleanup"


def mean_is_sum(site: RewriteContext, node: Node) -> Proposals:
    """mean(x) = sum(x) / n

    A sum can be computed in parts, a mean cannot. Both round alike: the mean's kernel also divides
    its sum by n.
    """
    if len(node.inputs) != 2 or node.inputs[1].value is None or not node.inputs[0].is_static:
        return
    operand, axes = node.inputs
    if operand.dtype not in FLOATS:
        yield Refusal(half_reason(operand))
        return
    count = operand.size // node.output.size if node.output.size else 0
    if not count:
        yield Refusal("the mean of no elements is NaN")
        return
    keep = bool(node.attrs.get("keep_dims"))
    total = site.emit("sum", operand, axes, keep_dims=keep)
    if count == 1:
        yield total
    else:
        yield site.emit("divide", total, site.const(count, operand.dtype))


def identity_transpose(site: RewriteContext, node: Node) -> Proposals:
    """transpose(x) = x where the axes stay, or reshape(x) where only axes of one element move"""
    order = permutation(node)
    if order is None:
        return
    x = node.inputs[0]
    moved = [axis for axis in order if x.dims[axis] != 1]
    if moved == sorted(moved):
        yield reshape(site, x, node.output.dims)


def transpose_of_transpose(site: RewriteContext, node: Node) -> Proposals:
    """transpose(transpose(x)) = transpose(x)"""
    outer = permutation(node)
    inner_node = site.maker(node.inputs[0], "permute_dims")
    inner = permutation(inner_node) if inner_node is not None else None
    if outer is None or inner is None or inner_node is None:
        return
    order = [inner[axis] for axis in outer]
    x = inner_node.inputs[0]
    yield x if order == sorted(order) else site.emit("permute_dims", x, site.axes(order))


def reshape_of_reshape(site: RewriteContext, node: Node) -> Proposals:
    """reshape(reshape(x)) = reshape(x), expand_dims and squeeze included"""
    inner = site.maker(node.inputs[0], *RESHAPES)
    if inner is None or not (inner.inputs[0].is_static and node.output.is_static):
        return
    yield reshape(site, inner.inputs[0], node.output.dims)


def identity_cast(site: RewriteContext, node: Node) -> Proposals:
    """cast(x) = x where the dtype stays"""
    if node.inputs[0].dtype == node.output.dtype:
        yield node.inputs[0]


def neutral_element(site: RewriteContext, node: Node) -> Proposals:
    """1 x = x, x / 1 = x, x - 0 = x, x + -0 = x"""
    if not node.output.is_static or len(node.inputs) != 2:
        return
    left, right = node.inputs
    pairs = [(left, right)] if node.op in ("divide", "subtract") else [(left, right), (right, left)]
    for rest, other in pairs:
        if other.value is None or not other.value.size:
            continue
        if (rest.shape, rest.dtype) != (node.output.shape, node.output.dtype):
            continue
        values = np.asarray(other.value)
        if values.dtype.kind not in "fiu":
            continue
        if node.op in ("multiply", "divide"):
            if bool(np.all(values == 1)):
                yield rest
        elif bool(np.all(values == 0)):
            if values.dtype.kind in "iu" or bool(np.all(np.signbit(values) == (node.op == "add"))):
                yield rest
            else:
                yield Refusal("-0 + 0 is 0: adding a zero is not exact")


def repeated_number(site: RewriteContext, node: Node) -> Proposals:
    """x tile(s) = x s, where s is one number, and so for sums and quotients"""
    if not node.output.is_static or len(node.inputs) != 2:
        return
    for position, (operand, rest) in enumerate((node.inputs, node.inputs[::-1])):
        inner = site.maker(operand, "tile", "broadcast_to")
        if inner is None or rest.shape != node.output.shape or not rest.is_static:
            continue
        number = inner.inputs[0]
        if number.is_static and number.size == 1 and len(number.dims) <= len(rest.dims):
            yield site.emit(node.op, *((rest, number) if position else (number, rest)))
            return


def double_negative(site: RewriteContext, node: Node) -> Proposals:
    """-(-x) = x"""
    inner = site.maker(node.inputs[0], "negative")
    if inner is not None:
        yield inner.inputs[0]


def two_scalars(site: RewriteContext, node: Node) -> Proposals:
    """a (b x) = (a b) x"""
    outer = _constant(node)
    if outer is None:
        return
    inner_node = site.maker(outer[1], "multiply", "negative")
    inner = _constant(inner_node) if inner_node is not None else None
    if inner is None:
        return
    number, dtype = outer[0] * inner[0], node.output.dtype
    if not all(is_usable(each, dtype) for each in (outer[0], inner[0], number)):
        yield Refusal(f"the product of {outer[0]} and {inner[0]} is zero, or far from one")
        return
    if number == 1.0:
        yield inner[1]
    else:
        yield site.emit("multiply", site.const(number, dtype), inner[1])


def _constant(node: Node) -> tuple[float, Tensor] | None:
    """Return c and x if a node is `c x` or `-x`."""
    if not is_float(node.output):
        return None
    if node.op == "negative":
        return -1.0, node.inputs[0]
    for constant, rest in (node.inputs, node.inputs[::-1]):
        if constant.value is None or constant.size != 1 or rest.shape != node.output.shape:
            continue
        return float(constant.value.reshape(())), rest
    return None


def transposed_operand(site: RewriteContext, node: Node) -> Proposals:
    """transpose(a) b = matmul(a, b, transpose_a), and so for b"""
    factors = as_product(site, node.output)
    if factors is None:
        return
    inner = [as_transpose(site, factor.tensor) for factor in factors]
    inner = [
        under if under is not None and _only_products_read(site, factor.tensor) else None
        for under, factor in zip(inner, factors, strict=True)
    ]
    if inner == [None, None]:
        return
    names = ("transpose_a", "transpose_b") if node.op == "matmul" else ("adj_x", "adj_y")
    operands, flags = [], {}
    for name, factor, under in zip(names, factors, inner, strict=True):
        operands.append(factor.tensor if under is None else under)
        flags[name] = factor.transposed if under is None else not factor.transposed
    yield site.emit(node.op, *operands, **flags)


def _only_products_read(site: RewriteContext, tensor: Tensor) -> bool:
    """Return whether only products read a transpose, so that it becomes dead once absorbed."""
    return tensor not in site.outputs and all(
        reader.op in MATRIX_PRODUCTS for reader, _ in site.readers.get(tensor, ())
    )


def reduce_of_reshape(site: RewriteContext, node: Node) -> Proposals:
    """sum(reshape(x)) = sum(x), sum(transpose(x)) = sum(x) over all axes"""
    inner = site.maker(node.inputs[0], *RESHAPES, "permute_dims")
    if inner is None or len(node.inputs) != 2 or node.inputs[1].value is None:
        return
    x = inner.inputs[0]
    if not x.is_static or not x.size or node.output.size != 1:
        return
    total = site.emit("sum", x, site.axes(range(len(x.dims))), keep_dims=False)
    yield reshape(site, total, node.output.dims)


def reduce_of_one(site: RewriteContext, node: Node) -> Proposals:
    """sum(x) = reshape(x) over axes of one element, and so for maxima, products, means"""
    if len(node.inputs) != 2 or node.inputs[1].value is None or not node.inputs[0].is_static:
        return
    x = node.inputs[0]
    if x.size and x.size == node.output.size:
        yield reshape(site, x, node.output.dims)


def sums_of_equals(site: RewriteContext, node: Node) -> Proposals:
    """cumsum(full(c)) = c, 2 c, 3 c, ... along the axis, of integers

    Causal masks compare two such sums, along rows and columns. A cumulative sum needs its axis
    whole, so a mask could not be split.
    """
    full, axis = site.maker(node.inputs[0], "full"), node.inputs[1].value
    if full is None or axis is None or not node.output.is_static or not node.output.size:
        return
    value, dims, dtype = full.inputs[1], node.output.dims, node.output.dtype
    if value.value is None or dtype not in ("int32", "int64"):
        return
    at = int(axis) % len(dims)
    first = 0 if node.attrs.get("exclusive") else 1
    bounds, step = (first, first + dims[at]), 1
    if node.attrs.get("reverse"):
        bounds, step = (bounds[1] - 1, first - 1), -1
    counts = site.emit("arange", *(site.const(one, dtype) for one in (*bounds, step)))
    sums = site.emit("multiply", counts, site.const(value.value, dtype))
    shape = [size if one == at else 1 for one, size in enumerate(dims)]
    yield site.emit("broadcast_to", reshape(site, sums, tuple(shape)), site.axes(dims))


def _rewrite(propose: Propose, ops: str, normal: bool = True) -> Rewrite:
    return Rewrite(FAMILY, propose, frozenset(ops.split()), normal)


REWRITES = (
    _rewrite(reduce_of_one, "all any max mean min prod sum"),
    _rewrite(mean_is_sum, "mean"),
    _rewrite(sums_of_equals, "cumsum"),
    _rewrite(identity_transpose, "permute_dims"),
    _rewrite(transpose_of_transpose, "permute_dims", normal=False),
    _rewrite(reshape_of_reshape, "reshape expand_dims squeeze"),
    _rewrite(identity_cast, "astype"),
    _rewrite(neutral_element, "multiply divide subtract add"),
    _rewrite(repeated_number, "multiply divide subtract add"),
    _rewrite(double_negative, "negative"),
    _rewrite(two_scalars, "multiply negative", normal=False),
    _rewrite(transposed_operand, "matmul batch_matmul"),
    _rewrite(reduce_of_reshape, "sum"),
)
