"""Triangular solves with fewer right-hand sides, and products that reuse known products.

If a right-hand side is a product a b and a has fewer columns than b, only a needs a solve. A sum of
such products is multiplied term by term if no product with a long axis is added. The gradient of a
sparse Gaussian process has many of them: L⁻ᵀ (S A + b eᵀ), with A of [M, N], and its product with
Aᵀ reduce to a product S' A, and to A Aᵀ, which the value of the loss needs as well.

Off by default: where S nearly undoes L or A is nearly of low rank, the terms are larger than their
sum, and their rounding errors are not small relative to it (docs/accuracy.md).
"""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import MATRIX_PRODUCTS
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import Factor, Scale, as_product, dense, is_float
from tf_exla.rewrite.chain import Element, best_order, multiply
from tf_exla.rewrite.chains import elements_of
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite
from tf_exla.rewrite.sums import Term, add, terms

FAMILY = "solves"


def solve_of_product(site: RewriteContext, node: Node) -> Proposals:
    """solve(l, a b + c d) = solve(l, a) b + solve(l, c) d, a and c of few columns"""
    matrix, right = node.inputs
    if not all(is_float(tensor) for tensor in (matrix, right)) or node.output.size == 0:
        return
    if not (matrix.dims[:-2] == right.dims[:-2] == node.output.dims[:-2]):
        yield Refusal(f"one of {matrix} and {right} is broadcast")
        return
    summands = terms(site, right, shared=False)
    chains = [elements_of(site, Factor(term.tensor), shared=False) for term in summands]
    if len(chains) > SETTINGS.terms or not any(len(elements) > 1 for _, elements, _ in chains):
        return
    few: dict[tuple[Element, ...], Tensor] = {}
    for term, (scale, elements, _) in zip(summands, chains, strict=True):
        cut = _narrowest(elements)
        if cut is None or term.tensor.shape != right.shape:
            yield Refusal(f"{term.tensor} has no factor of few columns beside {right}")
            return
        if any(element.shape[:-2] != matrix.dims[:-2] for element in elements):
            yield Refusal(f"a batch of {term.tensor} is broadcast")
            return
        columns = _multiplied(site, elements[:cut], right.size)
        if isinstance(columns, Refusal):
            yield columns
            return
        rest = elements[cut:]
        few[rest] = add(site, few.get(rest), term.scale * scale, dense(site, columns))
    total: Tensor | None = None
    for rest, summed in few.items():
        solved = site.emit("solve_triangular", matrix, summed, **node.attrs)
        made = _multiplied(site, (Factor(solved), *rest), right.size)
        if isinstance(made, Refusal):
            yield made
            return
        total = add(site, total, Scale(), dense(site, made))
    assert total is not None
    yield total


def _narrowest(elements: tuple[Element, ...]) -> int | None:
    """Return the number of leading elements whose product has the fewest columns.

    None if it has not `SETTINGS.fewer_columns` times fewer columns than the whole chain.
    """
    cuts = [
        (elements[cut - 1].shape[-1], -cut)
        for cut in range(1, len(elements))
        if any(isinstance(element, Factor) for element in elements[:cut])
    ]
    columns, cut = min(cuts, default=(0, 0))
    return -cut if cuts and SETTINGS.fewer_columns * columns <= elements[-1].shape[-1] else None


def product_of_sum(site: RewriteContext, node: Node) -> Proposals:
    """(a b + c d) e = a (b e) + c (d e), e (a b + c d) likewise, where b e and d e are no longer"""
    pair = as_product(site, node.output)
    if pair is None or node.output.size == 0:
        return
    for on_left, (factor, other) in ((True, pair), (False, pair[::-1])):
        found = terms(site, factor.tensor, shared=True)
        if not 2 <= len(found) <= SETTINGS.terms:
            continue
        if factor.shape[:-2] != other.shape[:-2]:
            yield Refusal(f"one of {factor.tensor} and {other.tensor} is broadcast")
            continue
        site.begin(node)
        yield _term_by_term(site, node, found, factor, other, on_left)


def _term_by_term(
    site: RewriteContext,
    node: Node,
    found: list[Term],
    factor: Factor,
    other: Factor,
    on_left: bool,
) -> Tensor | Refusal:
    most = max(tensor.size for tensor in (*node.inputs, node.output))
    total: Tensor | None = None
    for term in found:
        scale, elements, _ = elements_of(
            site, Factor(term.tensor, factor.transposed), shared=True, root=False
        )
        if len(elements) < 2 or term.tensor.shape != factor.tensor.shape:
            return Refusal(f"the summand {term.tensor} is no product")
        if any(element.shape[:-2] != factor.shape[:-2] for element in elements):
            return Refusal(f"a batch of {term.tensor} is broadcast")
        chain = (*elements, other) if on_left else (other, *elements)
        one = _multiplied(site, _with_known(site, chain, on_left), most)
        if isinstance(one, Refusal):
            return one
        total = add(site, total, term.scale * scale, dense(site, one))
    assert total is not None
    return total


def _with_known(
    site: RewriteContext, chain: tuple[Element, ...], at_end: bool
) -> tuple[Element, ...]:
    """Replace the last (`at_end`) or first two elements by a product that the graph already has."""
    left, right = chain[-2:] if at_end else chain[:2]
    if not (isinstance(left, Factor) and isinstance(right, Factor)):
        return chain
    assert site.root is not None
    for reader, _ in site.readers.get(left.tensor, ()):
        pair = as_product(site, reader.output) if reader.op in MATRIX_PRODUCTS else None
        if pair is None or site.position[reader] >= site.position[site.root]:
            continue
        if pair == (left, right) or pair == (right.flipped, left.flipped):
            known = Factor(reader.output, pair != (left, right))
            return (*chain[:-2], known) if at_end else (known, *chain[2:])
    return chain


def _multiplied(site: RewriteContext, elements: tuple[Element, ...], most: int) -> Factor | Refusal:
    """Multiply a chain in its cheapest order, without a result of more than `most` elements."""
    if len(elements) > SETTINGS.terms:
        return Refusal(
            f"the chain has {len(elements)} elements; at most {SETTINGS.terms} are tried"
        )
    order = best_order(elements, most)
    if order is None:
        return Refusal("every order makes a larger matrix than the program does")
    return Factor(multiply(site, elements, order, Scale()))


REWRITES = (
    Rewrite(FAMILY, solve_of_product, frozenset({"solve_triangular"})),
    Rewrite(FAMILY, product_of_sum, MATRIX_PRODUCTS),
)
