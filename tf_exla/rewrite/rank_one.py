"""A product plus row and column terms becomes one product with two more columns."""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import (
    SUMS,
    Factor,
    Scale,
    as_product,
    dense,
    is_float,
    product,
    reshape,
    scaled,
    strip,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite
from tf_exla.rewrite.sums import Term, add, add_terms, is_inner, terms

FAMILY = "rank-one-terms"


def rank_one_terms(site: RewriteContext, node: Node) -> Proposals:
    """s a bᵀ + x 1ᵀ + 1 yᵀ = [s a, x, 1] [b, 1, y]ᵀ

    The sums have the same terms as in the original, in another order. So nothing cancels that does
    not cancel in the original.
    """
    out = node.output
    if not is_float(out) or len(out.dims) < 2 or is_inner(site, node):
        return
    if site.ops.rounds_factors(out.dtype):
        yield Refusal(f"products of {out.dtype} round what is added here (TF32)")
        return
    if min(out.dims[-2:]) < 2:
        return
    tried: list[list[Term]] = []
    for shared in (False, True):
        found = terms(site, out, shared)
        if found not in tried:
            tried.append(found)
            yield from _with_columns(site, node, found)


def _with_columns(site: RewriteContext, node: Node, found: list[Term]) -> Proposals:
    out = node.output
    columns = [term for term in found if _vector(out, term.tensor, -2)]
    rows = [term for term in found if _vector(out, term.tensor, -1)]
    if not columns and not rows:
        return
    for position, term in enumerate(found):
        scale, factor = strip(site, term.tensor)
        pair = as_product(site, factor.tensor)
        if pair is None or factor.shape != out.dims:
            continue
        left, right = pair
        if factor.transposed:
            left, right = right.flipped, left.flipped
        batch = out.dims[:-2]
        if left.shape[:-2] != batch or right.shape[:-2] != batch:
            yield Refusal("an operand of the product is broadcast over the batch")
            continue
        if SETTINGS.small_operand * (left.tensor.size + right.tensor.size) > out.size:
            yield Refusal(
                f"the operands {left.tensor} and {right.tensor} are not small beside {out}: "
                "copying them would cost what the sums do"
            )
            continue
        done = {*columns, *rows}
        rest = [one for at, one in enumerate(found) if at != position and one not in done]
        total = _augmented(site, left, right, term.scale * scale, columns, rows)
        yield add_terms(site, total, rest)


def _vector(out: Tensor, tensor: Tensor, axis: int) -> bool:
    """Return whether a summand is a row or column: of the last two axes it has only `axis`."""
    if not tensor.is_static or len(tensor.dims) > len(out.dims):
        return False
    wanted = [1, 1]
    wanted[axis] = out.dims[axis]
    sizes = (1,) * (len(out.dims) - len(tensor.dims)) + tensor.dims
    return sizes == (*out.dims[:-2], *wanted)


def _augmented(
    site: RewriteContext,
    left: Factor,
    right: Factor,
    scale: Scale,
    columns: list[Term],
    rows: list[Term],
) -> Tensor:
    """Return the product with the row and column terms appended to its operands as columns."""
    *batch, n, m = (*left.shape[:-1], right.shape[-1])
    dtype = left.tensor.dtype
    a, b = dense(site, left), dense(site, right.flipped)
    if left.tensor.size <= right.tensor.size:
        a = scaled(site, a, scale)
    else:
        b = scaled(site, b, scale)
    parts_a, parts_b = [a], [b]
    ones: dict[int, Tensor] = {}

    def one(size: int) -> Tensor:
        if size not in ones:
            shape = site.axes((*batch, size, 1))
            ones[size] = site.emit("full", shape, site.const(1.0, dtype))
        return ones[size]

    if columns:
        parts_a.append(_total(site, columns, (*batch, n, 1)))
        parts_b.append(one(m))
    if rows:
        parts_a.append(one(n))
        parts_b.append(_total(site, rows, (*batch, m, 1)))
    last = site.const(-1, "int32")
    joined = (site.emit("concat", *parts, last) for parts in (parts_a, parts_b))
    return product(site, Factor(next(joined)), Factor(next(joined), True))


def _total(site: RewriteContext, summands: list[Term], shape: tuple[int, ...]) -> Tensor:
    total: Tensor | None = None
    for term in summands:
        total = add(site, total, term.scale, reshape(site, term.tensor, shape))
    assert total is not None
    return total


REWRITES = (Rewrite(FAMILY, rank_one_terms, SUMS),)
