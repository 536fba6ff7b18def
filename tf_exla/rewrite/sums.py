"""Sums of products that share an operand become one product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import (
    SUMS,
    Factor,
    Scale,
    as_product,
    as_scaled,
    dense,
    is_float,
    product,
    scaled,
    strip,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "sums-of-products"


@dataclass(frozen=True)
class Term:
    """scale · tensor, one summand."""

    scale: Scale
    tensor: Tensor


@dataclass(frozen=True)
class _Product:
    term: Term
    scale: Scale
    left: Factor
    right: Factor


def terms(site: RewriteContext, tensor: Tensor, shared: bool) -> list[Term]:
    """Return the summands of nested sums of one shape, each with its scalar.

    `shared`: also expand inner sums that have other readers, up to `SETTINGS.terms` summands. The
    number must be bounded, since each step x + f(x) of an unrolled loop doubles it.
    """
    found: list[Term] = []
    work = [(Scale(), tensor)]
    while work:
        scale, outer = work.pop()
        inner_scale, core, alone = Scale(), outer, True
        while True:
            alone = alone and (core is tensor or site.uses(core) == 1)
            under = as_scaled(site, core)
            if under is None:
                break
            inner_scale, core = inner_scale * under[0], under[1]
        node = site.maker(core, *SUMS)
        expanded = alone or (shared and len(found) + len(work) < SETTINGS.terms)
        if node is None or not is_float(core) or not expanded:
            found.append(Term(scale, outer))
            continue
        scale = scale * inner_scale
        for position, operand in reversed(list(enumerate(node.inputs))):
            negative = node.op == "subtract" and position == 1
            part = scale * Scale(-1.0) if negative else scale
            if operand.shape == core.shape:
                work.append((part, operand))
            else:
                found.append(Term(part, operand))
    return found


def is_inner(site: RewriteContext, node: Node) -> bool:
    """Return whether a sum's only reader is a sum of the same shape."""
    readers = site.readers.get(node.output, ())
    return (
        node.output not in site.outputs
        and len(readers) == 1
        and readers[0][0].op in SUMS
        and readers[0][0].output.shape == node.output.shape
    )


def shared_operand(site: RewriteContext, node: Node) -> Proposals:
    """a c + b c = (a + b) c, c a + c b = c (a + b), through scalars and transposes"""
    yield from _shared(site, node, of_transpose=False)


def own_transpose(site: RewriteContext, node: Node) -> Proposals:
    """a c + aᵀ c = (a + aᵀ) c, c a + c aᵀ = c (a + aᵀ)"""
    yield from _shared(site, node, of_transpose=True)


def _shared(site: RewriteContext, node: Node, of_transpose: bool) -> Proposals:
    """Merge products that share an operand.

    `of_transpose`: whether the other operands are a matrix and its transpose.
    """
    if not node.output.is_static or is_inner(site, node):
        return
    tried: list[list[Term]] = []
    for shared in (False, True):
        found = terms(site, node.output, shared)
        if found not in tried and len(found) <= SETTINGS.terms:
            tried.append(found)
            yield from _merged(site, node, found, of_transpose)


def _merged(site: RewriteContext, node: Node, found: list[Term], of_transpose: bool) -> Proposals:
    products = [made for term in found if (made := _as_product(site, term, node)) is not None]
    if len(products) < 2:
        return
    sides: tuple[tuple[Callable[[_Product], Factor], Callable[[_Product], Factor], bool], ...] = (
        (lambda one: one.right, lambda one: one.left, False),
        (lambda one: one.left, lambda one: one.right, True),
    )
    for shared, other, on_left in sides:
        for group in _groups(products, shared):
            shapes = {other(one).shape for one in group}
            if len(shapes) != 1:
                yield Refusal(f"the summed operands differ in shape: {sorted(shapes)}")
                continue
            parts = _like([(one.scale, other(one)) for one in group])
            if len(parts) < 2:  # the same product several times
                continue
            factors = [factor for _, factor in parts]
            if any(one.flipped in factors for one in factors) != of_transpose:
                continue
            merged = _sum(site, parts)
            operand = shared(group[0])
            pair = (operand, merged) if on_left else (merged, operand)
            total = product(site, *pair)
            if total.shape != node.output.shape:
                yield Refusal(f"the products are broadcast from {total.shape}")
                continue
            done = {one.term for one in group}
            yield add_terms(site, total, [term for term in found if term not in done])


def _as_product(site: RewriteContext, term: Term, node: Node) -> _Product | None:
    scale, factor = strip(site, term.tensor)
    found = as_product(site, factor.tensor)
    if found is None or factor.shape != node.output.dims:
        return None
    left, right = found
    if factor.transposed:
        left, right = right.flipped, left.flipped
    one, left = _stripped(site, left)
    two, right = _stripped(site, right)
    return _Product(term, term.scale * scale * one * two, left, right)


def _stripped(site: RewriteContext, factor: Factor) -> tuple[Scale, Factor]:
    scale, inner = strip(site, factor.tensor)
    return scale, inner.flipped if factor.transposed else inner


def _groups(
    products: list[_Product], shared: Callable[[_Product], Factor]
) -> Iterator[list[_Product]]:
    by_factor: dict[Factor, list[_Product]] = {}
    for one in products:
        by_factor.setdefault(shared(one), []).append(one)
    yield from (group for group in by_factor.values() if len(group) > 1)


def _like(parts: list[tuple[Scale, Factor]]) -> list[tuple[Scale, Factor]]:
    """Merge equal factors by adding their scales, unless the scales cancel."""
    found: list[tuple[Scale, Factor]] = []
    for scale, factor in parts:
        for k, (before, other) in enumerate(found):
            total = before + scale if other == factor else None
            if total is not None and total.number:
                found[k] = total, factor
                break
        else:
            found.append((scale, factor))
    return found


def _sum(site: RewriteContext, parts: list[tuple[Scale, Factor]]) -> Factor:
    """Add scaled factors of one shape; multiply a common scalar once, after the sum."""
    flip = all(factor.transposed for _, factor in parts)
    first = parts[0][0]
    same = all((s.number, *s.tensors()) == (first.number, *first.tensors()) for s, _ in parts)
    common = first if same else None
    total: Tensor | None = None
    for scale, factor in parts:
        tensor = factor.tensor if flip else dense(site, factor)
        total = add(site, total, scale if common is None else Scale(), tensor)
    assert total is not None
    return Factor(total if common is None else scaled(site, total, common), flip)


def add(site: RewriteContext, total: Tensor | None, scale: Scale, tensor: Tensor) -> Tensor:
    """Return total + scale · tensor."""
    if total is None:
        return scaled(site, tensor, scale)
    if scale.number < 0:
        positive = Scale(-scale.number, scale.times, scale.over)
        return site.emit("subtract", total, scaled(site, tensor, positive))
    return site.emit("add", total, scaled(site, tensor, scale))


def add_terms(site: RewriteContext, total: Tensor, rest: list[Term]) -> Tensor:
    """Add the remaining summands, which a replacement does not change."""
    for term in rest:
        total = add(site, total, term.scale, term.tensor)
    return total


REWRITES = (
    Rewrite(FAMILY, shared_operand, SUMS),
    Rewrite(FAMILY, own_transpose, SUMS, ties_axes=True),
)
