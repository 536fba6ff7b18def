"""Products and sums that read the same large matrix become one product, which reads it once.

A product with few columns takes as long as reading the large matrix, so more columns are nearly
free. A float64 matrix of 8 MB times 3 columns took 0.30 ms, times 4 columns 0.26 ms, and its row
sums 0.12 ms (2 cores). A sum is a product with ones. The gradient of a kernel needs `G x`, `Gᵀ z`,
and the row and column sums of G, which become two products with one more column each.

Only readings on the same level are merged: those with the same number of completed reductions of
large tensors before them. If a product waited for the result of another, a split program would have
to go over its data once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import MATRIX_PRODUCTS
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import (
    Factor,
    adds_as_product,
    as_product,
    dense,
    is_float,
    product,
    reshape,
    sum_axes,
    transposed,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite, Together

FAMILY = "one-pass"


@dataclass(frozen=True)
class _Reading:
    """A node that reads a large matrix: its result is matrix · columns, transposed if `flipped`.

    `columns` None: the result is the row sums of the matrix.
    """

    node: Node
    matrix: Factor
    columns: Factor | None
    flipped: bool = False

    @property
    def count(self) -> int:
        return 1 if self.columns is None else self.columns.shape[-1]


def one_product(site: RewriteContext, node: Node) -> Proposals:
    """[a b, a c, sum(a, 1)] = a [b, c, 1], for all that read a large matrix"""
    for reading in list(_readings(site, node)):
        matrix = reading.matrix
        if site.ops.rounds_factors(matrix.tensor.dtype):
            yield Refusal("with more columns a product may round its factors (TF32)")
            continue
        if _read_later(site, matrix, node):
            continue
        others = {
            found.node: found
            for reader, _ in site.readers.get(matrix.tensor, ())
            for found in _readings(site, reader)
            if found.matrix == matrix
        }
        group = list(others.values())
        if len(group) < 2:
            continue
        size = matrix.tensor.size
        width = sum(one.count for one in group)
        copied = sum(one.node.output.size for one in group)
        copied += width * size // matrix.shape[-2] if size else 0
        if SETTINGS.small_operand * copied > size:
            yield Refusal(f"the columns and the results are not small beside {matrix.tensor}")
            continue
        rates = site.ops.rates()
        if matrix.tensor.nbytes * rates.byte * (len(group) - 1) < rates.launch * (len(group) + 2):
            yield Refusal(f"reading {matrix.tensor} once more takes less than joining columns")
            continue
        levels = _levels(site, matrix.tensor, node)
        same = [one for one in group if _level(levels, one) == _level(levels, reading)]
        if len(same) < 2 or _depends(site, same):
            yield Refusal("one of the products waits for the result of another")
            continue
        yield _joined(site, same)


def _read_later(site: RewriteContext, matrix: Factor, node: Node) -> bool:
    """Return whether a node after `node` reads `matrix`, so that it proposes the merged product."""
    return any(
        found.matrix == matrix
        for reader in site.readers_after(matrix.tensor, node)
        for found in _readings(site, reader)
    )


def _readings(site: RewriteContext, node: Node) -> Iterator[_Reading]:
    if len(node.outputs) != 1 or node.stateful or not is_float(node.output):
        return
    if node.op == "sum":
        found = sum_axes(node)
        operand = node.inputs[0]
        if found is None or len(operand.dims) < 2 or not adds_as_product(site, operand, found[0]):
            return
        for axis, flipped in ((-1, False), (-2, True)):
            if found[0] == {len(operand.dims) + axis}:
                yield _Reading(node, Factor(operand, flipped), None)
        return
    pair = as_product(site, node.output) if node.op in MATRIX_PRODUCTS else None
    if pair is None or pair[0].tensor is pair[1].tensor:
        return
    left, right = pair
    if left.shape[:-2] != right.shape[:-2]:
        return
    yield _Reading(node, left, right)
    yield _Reading(node, right.flipped, left.flipped, True)


def _levels(site: RewriteContext, matrix: Tensor, last: Node) -> dict[Tensor, int]:
    """Return for each tensor the number of large reductions on the longest path to it.

    These are reductions of tensors about as large as `matrix`, in nodes before `last`.
    """
    levels: dict[Tensor, int] = {}
    for node in takewhile(lambda each: each is not last, site.nodes):
        level = max((levels.get(tensor, 0) for tensor in node.inputs), default=0)
        read = max((tensor.size for tensor in node.inputs), default=0)
        made = max((tensor.size for tensor in node.outputs), default=0)
        reduces = (
            SETTINGS.small_operand * read >= matrix.size and SETTINGS.small_operand * made <= read
        )
        for tensor in node.outputs:
            levels[tensor] = level + reduces
    return levels


def _level(levels: dict[Tensor, int], reading: _Reading) -> int:
    columns = 0 if reading.columns is None else levels.get(reading.columns.tensor, 0)
    return max(levels.get(reading.matrix.tensor, 0), columns)


def _depends(site: RewriteContext, group: list[_Reading]) -> bool:
    """Return whether the columns of a reading depend on the result of another one.

    They may also depend on it through an assigned variable.
    """
    first = min(site.position[one.node] for one in group)
    results = {one.node for one in group}
    work = [one.columns.tensor for one in group if one.columns is not None]
    stateful = [node for node in site.nodes if node.stateful]
    seen: set[Node] = set()
    while work:
        maker = site.producer.get(work.pop())
        if maker is None or maker in seen or site.position[maker] < first:
            continue
        if maker in results:
            return True
        seen.add(maker)
        work += maker.inputs
        if maker.stateful:  # it waits for earlier stateful nodes
            before = stateful[: stateful.index(maker)]
            work += [tensor for node in before for tensor in node.inputs]
    return False


def _joined(site: RewriteContext, group: list[_Reading]) -> Together:
    matrix = group[0].matrix
    *batch, rows, inner = matrix.shape
    dtype = matrix.tensor.dtype
    parts: dict[Tensor | None, Tensor] = {}
    starts: dict[_Reading, int] = {}
    at: dict[Tensor, int] = {}
    width = 0
    for one in sorted(group, key=lambda one: site.position[one.node]):
        if one.columns is None:
            shape = site.axes((*batch, inner, 1))
            part = parts.get(None) or site.emit("full", shape, site.const(1.0, dtype))
            parts[None] = part
        else:
            part = dense(site, one.columns)
        if part not in at:
            at[part] = width
            width += part.dims[-1]
        starts[one] = at[part]
    joined = site.emit("concat", *at, site.const(-1, "int32")) if len(at) > 1 else next(iter(at))
    results = product(site, matrix, Factor(joined))
    stands: dict[Node, Tensor] = {}
    for one, start in starts.items():
        begin, size = (*[0] * (len(batch) + 1), start), (*batch, rows, one.count)
        part = site.emit("slice", results, site.axes(begin), site.axes(size))
        if one.flipped:
            part = transposed(site, part)
        stands[one.node] = reshape(site, part, one.node.output.dims)
    return Together(stands)


REWRITES = (Rewrite(FAMILY, one_product, MATRIX_PRODUCTS | {"sum"}, copies=True),)
