"""Block matrices: products and reductions of a block matrix are computed from its rows of blocks.

A tensor that is concatenated along two axes cannot be split along either of them. So its products,
reductions, and sums of segments of its rows are computed from its parts, each of which is
concatenated along one axis only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.traits import MATRIX_PRODUCTS
from tf_exla.rewrite.algebra import Factor, as_product, is_float, product
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "sums-of-products"
_COMBINED = {"max": "maximum", "min": "minimum", "sum": "add"}


def block_product(site: RewriteContext, node: Node) -> Proposals:
    """[A; B] v = [A v; B v], [A, B] [v; w] = A v + B w, where A and B are joined the other way"""
    found = as_product(site, node.output)
    if found is None or len(node.output.dims) != 2:
        return
    for at, factor in enumerate(found):
        joined = _blocks(site, factor.tensor)
        other = found[1 - at]
        if joined is None or len(other.tensor.dims) != 2:
            continue
        if factor.tensor.nbytes <= node.output.nbytes:  # the result would be concatenated instead
            continue
        parts, axis = joined
        effective = 1 - axis if factor.transposed else axis
        blocks = [Factor(part, factor.transposed) for part in parts]
        if effective == at:  # rows of the left or columns of the right: axes of the result
            made = [product(site, *_pair(at, block, other)) for block in blocks]
            yield _join(site, made, effective)
        else:
            pieces = _cut(site, other, at, [block.shape[effective] for block in blocks])
            pairs = zip(blocks, pieces, strict=True)
            made = [product(site, *_pair(at, block, piece)) for block, piece in pairs]
            yield reduce(lambda total, one: site.emit("add", total, one), made)


def block_reduction(site: RewriteContext, node: Node) -> Proposals:
    """sum [A; B] = [sum A; sum B], or sum A + sum B, where A and B are joined the other way"""
    joined, axes = _blocks(site, node.inputs[0]), node.inputs[1].value
    if joined is None or axes is None:
        return
    parts, axis = joined
    rank = len(node.inputs[0].dims)
    gone = {int(one) % rank for one in axes.ravel()}
    made = [site.emit(node.op, part, node.inputs[1], **node.attrs) for part in parts]
    if axis in gone:
        yield reduce(lambda total, one: site.emit(_COMBINED[node.op], total, one), made)
    else:
        kept = bool(node.attrs["keep_dims"])
        yield _join(site, made, axis if kept else axis - sum(one < axis for one in gone))


def block_segments(site: RewriteContext, node: Node) -> Proposals:
    """segment_sum([A; B], [i; j]) = segment_sum(A, i) + segment_sum(B, j)

    The gradient of several gathers from one tensor concatenates what is added to its rows.
    """
    rows, places, count = node.inputs
    if count.value is None or not is_float(rows):
        return
    joins = [site.maker(one, "concat") for one in (rows, places)]
    if any(join is None or _axis(join) != 0 for join in joins):
        return
    parts = [join.inputs[:-1] for join in joins if join is not None]
    if not all(one.is_static and one.size for several in parts for one in several):
        return
    pairs = list(zip(*parts, strict=False))
    alike = all(one.dims[: len(at.dims)] == at.dims for one, at in pairs)
    if not alike or len(parts[0]) != len(parts[1]):
        return
    if rows.nbytes <= len(pairs) * node.output.nbytes:  # the partial sums would need more memory
        return
    made = [site.emit(node.op, one, at, count) for one, at in pairs]
    yield reduce(lambda total, one: site.emit("add", total, one), made)


def _blocks(site: RewriteContext, tensor: Tensor) -> tuple[Sequence[Tensor], int] | None:
    """Return the parts of a matrix that is concatenated along two axes, and the outer axis."""
    outer = site.maker(tensor, "concat")
    if outer is None or not is_float(tensor):
        return None
    *parts, _ = outer.inputs
    if not all(one.is_static and one.size for one in (tensor, *parts)):
        return None
    axis = _axis(outer)
    inner = [site.maker(part, "concat") for part in parts]
    if axis is None or not any(one is not None and _axis(one) not in (None, axis) for one in inner):
        return None
    return parts, axis


def _axis(node: Node) -> int | None:
    value = node.inputs[-1].value
    return None if value is None else int(value) % len(node.output.dims)


def _pair(at: int, one: Factor, other: Factor) -> tuple[Factor, Factor]:
    return (other, one) if at else (one, other)


def _cut(site: RewriteContext, factor: Factor, at: int, sizes: Sequence[int]) -> list[Factor]:
    """Return the part of a factor that is multiplied with each block: slices along axis `at`."""
    axis = at if not factor.transposed else 1 - at
    found, begin = [], [0, 0]
    for size in sizes:
        shape = list(factor.tensor.dims)
        shape[axis] = size
        cut = site.emit("slice", factor.tensor, site.axes(begin), site.axes(shape))
        found.append(Factor(cut, factor.transposed))
        begin[axis] += size
    return found


def _join(site: RewriteContext, parts: Sequence[Tensor], axis: int) -> Tensor:
    return site.emit("concat", *parts, site.const(axis, "int32"))


REWRITES = (
    Rewrite(FAMILY, block_product, MATRIX_PRODUCTS, normal=True, copies=True),
    Rewrite(FAMILY, block_reduction, frozenset(_COMBINED), normal=True, copies=True),
    Rewrite(FAMILY, block_segments, frozenset({"segment_sum"}), normal=True),
)
