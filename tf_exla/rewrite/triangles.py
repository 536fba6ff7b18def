"""Triangles: compute one half of a product that is symmetric or masked to a triangle.

a aᵀ is symmetric, and the gradient of a triangular matrix is a product of which one triangle is set
to zero. The rows are cut into blocks, and each block is multiplied with the columns up to its
diagonal. If the summed axis is split, chunks are summed into the blocks, and the result is
assembled from the blocks only once. So the rewrites apply only if the summed axis is long relative
to the result. A product in blocks of about 125 rows is nearly as fast per operation: in float64,
with 1,000 columns in a chunk, 500 rows took 0.75, 1,000 rows 0.69 and 2,000 rows 0.60 of the time
of the whole product (2 cores).

Blocks and the tensors assembled from them are alive at once. They take a few times the bytes of the
result.
"""

from __future__ import annotations

from itertools import pairwise

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import MATRIX_PRODUCTS
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import Factor, as_product, product, scaled, strip, transposed
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "triangles"


def gram(site: RewriteContext, node: Node) -> Proposals:
    """a aᵀ = [a_i a_jᵀ for j <= i], and its transpose above the diagonal"""
    pair = as_product(site, node.output)
    if pair is None or pair[1] != pair[0].flipped:
        return
    refused = _unfit(site, *pair)
    if refused is not None:
        yield refused
        return
    blocks, edges = _blocks(site, *pair)
    rows = []
    for i, block in enumerate(blocks):
        strips = [_part(site, below, (edges[i], edges[i + 1]), -1) for below in blocks[i + 1 :]]
        right = [transposed(site, _joined(site, strips, -2))] if strips else []
        rows.append(_joined(site, [block, *right], -1))
    yield _joined(site, rows, -2)


def masked(site: RewriteContext, node: Node) -> Proposals:
    """tril(a b) = tril([a_i b_j for j <= i])"""
    band = [None if tensor.value is None else int(tensor.value) for tensor in node.inputs[1:]]
    if band not in ([-1, 0], [0, -1]):
        return
    passed: list[Tensor] = []
    scale, factor = strip(site, node.inputs[0], passed)
    pair = as_product(site, factor.tensor)
    if pair is None:
        return
    left, right = (pair[1].flipped, pair[0].flipped) if factor.transposed else pair
    if left.shape[-2] != right.shape[-1]:
        return
    if any(site.uses(tensor) > 1 for tensor in passed):
        yield Refusal("all of the product is read elsewhere")
        return
    refused = _unfit(site, left, right)
    if refused is not None:
        yield refused
        return
    upper = band == [0, -1]
    if upper:  # compute the lower triangle of the transpose
        left, right = right.flipped, left.flipped
    blocks, edges = _blocks(site, left, right)
    *batch, size = node.output.dims[:-1]
    rows = []
    for i, block in enumerate(blocks):
        above = (*batch, edges[i + 1] - edges[i], size - edges[i + 1])
        zeros = site.const(0.0, block.dtype)
        rest = [site.emit("full", site.axes(above), zeros)] if above[-1] else []
        rows.append(_joined(site, [block, *rest], -1))
    whole = _joined(site, rows, -2)
    if upper:
        whole = transposed(site, whole)
    yield site.emit("band_part", scaled(site, whole, scale), *node.inputs[1:])


def _unfit(site: RewriteContext, left: Factor, right: Factor) -> Refusal | None:
    """Return a refusal if half of a product would take as long as all of it, else None."""
    rows, inner = left.shape[-2:]
    if left.shape[:-2] != right.shape[:-2] or left.shape[-2] != right.shape[-1]:
        return Refusal(f"one of {left.tensor} and {right.tensor} is broadcast")
    if rows < SETTINGS.triangle_rows or inner < SETTINGS.triangle_long * rows:
        return Refusal(f"{rows} rows are few, or the {inner} that are summed not many more")
    return None


def _blocks(site: RewriteContext, left: Factor, right: Factor) -> tuple[list[Tensor], list[int]]:
    """Return the product of each block of rows with the columns up to its end.

    Also return the edges of the blocks.
    """
    rows = left.shape[-2]
    count = min(max(round(rows / SETTINGS.triangle_block), 2), SETTINGS.triangle_blocks)
    edges = [-(-rows * i // count) for i in range(count + 1)]
    blocks = [
        product(
            site,
            Factor(_rows(site, left, (low, high)), left.transposed),
            Factor(_rows(site, right.flipped, (0, high)), right.transposed),
        )
        for low, high in pairwise(edges)
    ]
    return blocks, edges


def _rows(site: RewriteContext, factor: Factor, span: tuple[int, int]) -> Tensor:
    """Return the tensor of a factor, sliced to some of the factor's rows."""
    return _part(site, factor.tensor, span, -1 if factor.transposed else -2)


def _part(site: RewriteContext, tensor: Tensor, span: tuple[int, int], axis: int) -> Tensor:
    low, high = span
    if (low, high) == (0, tensor.dims[axis]):
        return tensor
    begin, size = [0] * len(tensor.dims), list(tensor.dims)
    begin[axis], size[axis] = low, high - low
    return site.emit("slice", tensor, site.axes(begin), site.axes(size))


def _joined(site: RewriteContext, parts: list[Tensor], axis: int) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    return site.emit("concat", *parts, site.const(axis % len(parts[0].dims), "int32"))


REWRITES = (
    Rewrite(FAMILY, gram, MATRIX_PRODUCTS, normal=True, needs_memory=True),
    Rewrite(FAMILY, masked, frozenset({"band_part"}), normal=True, needs_memory=True),
)
