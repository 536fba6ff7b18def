"""A chain of matrices: its elements, and the cheapest order by dynamic programming.

Elements are matrices (or batches of matrices), diagonals, and vectors of ones at the ends, which
represent sums over rows or columns. Godbole, "On efficient computation of matrix chain products"
(1973), with three kinds of pairs: a product, a scaling by a diagonal, a sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from tf_exla.ir.graph import Tensor
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import (
    Factor,
    Scale,
    dense,
    product,
    reduce_sum,
    reshape,
    scaled,
    transposed,
)
from tf_exla.rewrite.context import RewriteContext


@dataclass(frozen=True, slots=True)
class Diagonal:
    """diag(tensor): the tensor's last axis becomes the last two axes of the matrix."""

    tensor: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.tensor.dims, self.tensor.dims[-1])


@dataclass(frozen=True, slots=True)
class Ones:
    """A column of ones at the right end of a chain, or a row of ones at its left end."""

    rows: int
    columns: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)


Element = Factor | Diagonal | Ones


def reverse(elements: tuple[Element, ...]) -> tuple[Element, ...]:
    """Transpose a chain."""
    return tuple(
        element.flipped if isinstance(element, Factor) else element
        for element in reversed(elements)
    )


@dataclass(frozen=True)
class Step:
    """The best order in which to multiply a range of elements.

    `flops`: of all its products. `largest`: the number of elements of its largest result. `split`:
    the last element of the left part of the last product; None for a single element.
    """

    flops: int
    largest: int
    split: int | None


def best_order(elements: tuple[Element, ...], most: int) -> dict[tuple[int, int], Step] | None:
    """Return the order with the fewest flops, and of these the one with the smallest results.

    No intermediate result may exceed `most` elements; None if there is no such order. The result
    maps (first, last), the ends of a range of elements, to its step.
    """
    count = len(elements)
    best: dict[tuple[int, int], Step] = {(i, i): Step(0, 0, None) for i in range(count)}
    batches = [element.shape[:-2] for element in elements]

    @cache
    def batch(first: int, last: int) -> int:
        return math.prod(np.broadcast_shapes(*batches[first : last + 1]))

    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            size = batch(first, last) * elements[first].shape[-2] * elements[last].shape[-1]
            if is_diagonal(elements, first, last):
                size = batch(first, last) * elements[first].shape[-1]
            options = []
            for split in range(first, last):
                left, right = best.get((first, split)), best.get((split + 1, last))
                if left is None or right is None or (size > most and length < count):
                    continue
                flops = _pair_flops(elements, first, split, last, size, batch)
                options.append(
                    Step(
                        left.flops + right.flops + flops,
                        max(left.largest, right.largest, size),
                        split,
                    )
                )
            if options:
                best[first, last] = min(options, key=lambda step: (step.flops, step.largest))
    return best if (0, count - 1) in best else None


def order_within(
    elements: tuple[Element, ...], most: int, room: int | None
) -> dict[tuple[int, int], Step] | None:
    """Return the best order; prefer a slightly more expensive one if its results fit `room`.

    `room`: elements for which there is memory; None: unlimited. A result above it is allowed, since
    it can be split at the same flops. So an order that fits is preferred only if it takes at most
    `SETTINGS.more_flops` times the flops of the best one.
    """
    best = best_order(elements, most)
    if best is None or room is None or room >= most:
        return best
    within = best_order(elements, room)
    whole = (0, len(elements) - 1)
    if within is None or within[whole].flops > SETTINGS.more_flops * best[whole].flops:
        return best
    return within


def is_diagonal(elements: tuple[Element, ...], first: int, last: int) -> bool:
    return all(isinstance(element, Diagonal) for element in elements[first : last + 1])


def _pair_flops(
    elements: tuple[Element, ...], first: int, split: int, last: int, size: int, batch: object
) -> int:
    """Return the flops of one product, sum or scaling."""
    assert callable(batch)
    if is_diagonal(elements, first, split) or is_diagonal(elements, split + 1, last):
        return size
    if split + 1 == last and isinstance(elements[last], Ones):
        rows, inner = elements[first].shape[-2], elements[split].shape[-1]
        return int(batch(first, split)) * rows * inner
    if split == first and isinstance(elements[first], Ones):
        inner, columns = elements[split + 1].shape[-2], elements[last].shape[-1]
        return int(batch(split + 1, last)) * inner * columns
    return 2 * size * elements[split].shape[-1]


def multiply(
    site: RewriteContext,
    elements: tuple[Element, ...],
    order: dict[tuple[int, int], Step],
    scale: Scale,
) -> Tensor:
    """Emit the product of a chain in the given order.

    `scale` is applied to its smallest operand or intermediate result.
    """
    where = _smallest(elements, order)

    def run(first: int, last: int) -> Factor | Diagonal | Ones:
        split = order[first, last].split
        if split is None:
            made = elements[first]
        else:
            made = _pair(site, run(first, split), run(split + 1, last))
        if (first, last) == where and not scale.is_one:
            assert not isinstance(made, Ones)
            tensor = scaled(site, made.tensor, scale)
            if isinstance(made, Diagonal):
                return Diagonal(tensor)
            return Factor(tensor, made.transposed)
        return made

    whole = run(0, len(elements) - 1)
    assert isinstance(whole, Factor)
    return dense(site, whole)


def _smallest(elements: tuple[Element, ...], order: dict[tuple[int, int], Step]) -> tuple[int, int]:
    """Return the range of elements whose result is the smallest; single elements count, too.

    Elements that are only ones do not.
    """
    sizes: dict[tuple[int, int], int] = {}

    def visit(first: int, last: int) -> None:
        split = order[first, last].split
        if split is not None:
            visit(first, split)
            visit(split + 1, last)
        elif isinstance(elements[first], Ones):
            return
        batches = [element.shape[:-2] for element in elements[first : last + 1]]
        rows = elements[first].shape[-2]
        columns = 1 if is_diagonal(elements, first, last) else elements[last].shape[-1]
        sizes[first, last] = math.prod(np.broadcast_shapes(*batches)) * rows * columns

    visit(0, len(elements) - 1)
    return min(sizes, key=lambda key: sizes[key])


def _pair(site: RewriteContext, left: Element, right: Element) -> Element:
    if isinstance(left, Diagonal) and isinstance(right, Diagonal):
        return Diagonal(site.emit("multiply", left.tensor, right.tensor))
    if isinstance(left, Diagonal):
        assert isinstance(right, Factor | Ones)
        return _scale_rows(site, left, right)
    if isinstance(right, Diagonal):
        if isinstance(left, Ones):
            return Factor(reshape(site, right.tensor, _with_one(right.tensor, row=True)))
        column = _scale_rows(site, right, left.flipped)
        assert isinstance(column, Factor)
        return column.flipped
    if isinstance(right, Ones):
        assert isinstance(left, Factor)
        return _row_sums(site, left)
    if isinstance(left, Ones):
        return _row_sums(site, right.flipped).flipped
    return Factor(product(site, left, right))


def _with_one(tensor: Tensor, row: bool) -> tuple[int, ...]:
    *batch, size = tensor.dims
    return (*batch, 1, size) if row else (*batch, size, 1)


def _scale_rows(site: RewriteContext, left: Diagonal, right: Factor | Ones) -> Factor:
    """Scale the rows of a matrix: the columns of its tensor if it is transposed."""
    if isinstance(right, Ones):
        return Factor(reshape(site, left.tensor, _with_one(left.tensor, row=False)))
    vector = reshape(site, left.tensor, _with_one(left.tensor, row=right.transposed))
    return Factor(site.emit("multiply", vector, right.tensor), right.transposed)


def _row_sums(site: RewriteContext, factor: Factor) -> Factor:
    """Sum each row; return a column."""
    axis = len(factor.tensor.dims) - (2 if factor.transposed else 1)
    total = reduce_sum(site, factor.tensor, (axis,), keep=True)
    return Factor(transposed(site, total) if factor.transposed else total)
