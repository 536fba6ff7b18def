"""Stacking: products that the iterations of a loop add up become one product after the loop.

The gradient of a While adds a product to the gradient of a matrix in each iteration, `D += aᵀ b`,
as in conjugate gradients with a kernel matrix. D is a variable of the loop, so it cannot be split.
If a and b are small, each iteration stores them in two stacks instead, and D is one product of the
stacks after the loop. This product can be split, and takes one pass over D instead of three for
each iteration. Entries of the stacks that no iteration writes are zero.

The stacks have entries for the largest possible number of iterations. An entry takes about a
twentieth of the time of adding a matrix to D in memory. So this is faster unless a loop ends after
a twentieth of its largest number of iterations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from tf_exla.ir.builder import Builder
from tf_exla.ir.clean import clean
from tf_exla.ir.control_flow import Variable, body_of, cond_of, is_while, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traverse import producers, reads, with_subgraphs
from tf_exla.model.settings import SETTINGS
from tf_exla.model.sizes import Sizes
from tf_exla.rewrite.rewrite import Application, GraphRewrite, Rewritten

FAMILY = "stacking"

_SUMS = frozenset({"add", "add_n"})
_DTYPES = frozenset({"bfloat16", "float16", "float32", "float64", "complex64", "complex128"})


@dataclass(frozen=True)
class _Factor:
    """One factor of a product; `first`: whether the product contracts its first axis."""

    tensor: Tensor
    first: bool

    @property
    def dims(self) -> tuple[int, int]:
        """The sizes of the contracted axis and of the other one."""
        rows, columns = self.tensor.dims
        return (rows, columns) if self.first else (columns, rows)


@dataclass(frozen=True)
class _Sum:
    """A variable, at position `at`, to which each iteration adds products."""

    at: int
    products: tuple[tuple[_Factor, _Factor], ...]


def stack(graph: Graph, ops: OpSet) -> Rewritten:
    """Σ_t a_tᵀ b_t = [a_1; a_2; ...]ᵀ [b_1; b_2; ...]

    It applies to variables of a While to which each iteration adds products, also in sub-graphs.
    """
    if not any(node.subgraphs for node in graph.nodes):
        return Rewritten(graph, (), ())
    sizes = Sizes(ops)
    sizes.lists(graph)  # compute the bounds from which iterations are bounded
    applications: list[Application] = []
    return Rewritten(_stacked(graph, ops, sizes, applications), tuple(applications), ())


def _stacked(graph: Graph, ops: OpSet, sizes: Sizes, applications: list[Application]) -> Graph:
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, lambda sub: _stacked(sub, ops, sizes, applications))
        iterations = sizes.iterations(old) if is_while(old) else None
        sums = [] if iterations is None else list(_sums(node, ops, iterations))
        if sums and iterations is not None:
            with suppress(Refusal):  # the front end lacks an op
                made = _replaced(node, sums, iterations, ops)
                applications.append(_application(ops, node, sums, iterations, made))
                nodes += made
                continue
        nodes.append(node)
    changed = graph.with_nodes(nodes)
    return graph if changed is graph else clean(changed, ops)


def _sums(node: Node, ops: OpSet, iterations: int) -> Iterator[_Sum]:
    """Yield the sums of a While whose factors, stacked for all iterations, are small enough."""
    body, cond = body_of(node), cond_of(node)
    made_by, tested = producers(body), reads(cond)
    uses = _uses(body)
    for at, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        same = (before, after, node.inputs[at], node.outputs[at])
        if any(one.shape != before.shape for one in same):
            continue
        if not before.is_static or len(before.dims) != 2:
            continue
        if before.dtype not in _DTYPES or cond.inputs[at] in tested or uses[before] != 1:
            continue
        terms = list(_terms(after, made_by, uses))
        products = [_product(one, ops, made_by, uses) for one in terms if one is not before]
        found = tuple(one for one in products if one is not None)
        if before not in terms or not found or len(found) < len(products):
            continue
        factors = {one for pair in found for one in pair}
        stacks = sum(one.tensor.nbytes for one in factors) * iterations
        if 0 < stacks <= before.nbytes // SETTINGS.kept_part:
            yield _Sum(at, found)


def _uses(graph: Graph) -> Counter[Tensor]:
    """Count how often a graph reads or returns each tensor."""
    return Counter(chain(*(node.inputs for node in graph.nodes), graph.outputs))


def _terms(
    tensor: Tensor, made_by: Mapping[Tensor, Node], uses: Mapping[Tensor, int]
) -> Iterator[Tensor]:
    """Yield the terms of nested sums of tensors of one shape; the inner sums have one reader."""
    node = made_by.get(tensor)
    if node is None or node.op not in _SUMS or uses[tensor] != 1:
        yield tensor
        return
    if any(one.shape != tensor.shape for one in node.inputs):
        yield tensor
        return
    for one in node.inputs:
        yield from _terms(one, made_by, uses)


def _product(
    tensor: Tensor, ops: OpSet, made_by: Mapping[Tensor, Node], uses: Mapping[Tensor, int]
) -> tuple[_Factor, _Factor] | None:
    """Return the factors of a product of two matrices, or of a column and a row."""
    node = made_by.get(tensor)
    if node is None or uses[tensor] != 1 or len(node.inputs) != 2:
        return None
    left, right = node.inputs
    if not all(one.is_static and len(one.dims) == 2 for one in node.inputs):
        return None
    if left.dtype != tensor.dtype or right.dtype != tensor.dtype:
        return None
    if node.op == "matmul":
        first = bool(node.attrs.get("transpose_a")), not node.attrs.get("transpose_b")
        return _Factor(left, first[0]), _Factor(right, first[1])
    if node.op == "multiply" and not ops.rounds_factors(tensor.dtype):
        for column, row in ((left, right), (right, left)):
            if column.dims == (tensor.dims[0], 1) and row.dims == (1, tensor.dims[1]):
                return _Factor(column, False), _Factor(row, True)
    return None


def _replaced(node: Node, sums: Sequence[_Sum], iterations: int, ops: OpSet) -> list[Node]:
    """Return the nodes that replace a While: a While with stacks, and products for the sums."""
    body = body_of(node)
    before, inside, after = (Builder(node, ops) for _ in range(3))
    first, number = before.const(0), Tensor((), "int32", f"{node.name}/iteration")
    variables = [Variable(first, number, inside.op("add", number, inside.const(1)))]
    place = inside.op("reshape", number, inside.const([1, 1]))
    stacks: dict[_Factor, int] = {}
    for one in dict.fromkeys(factor for s in sums for pair in s.products for factor in pair):
        length = math.prod(one.dims)
        shape = before.const([iterations, length])
        empty = before.op("full", shape, before.const(0, one.tensor.dtype))
        stack = empty.fresh_copy()
        row = one.tensor
        if not one.first and 1 not in row.dims:
            row = inside.op("permute_dims", row, inside.const([1, 0]))
        row = inside.op("reshape", row, inside.const([1, length]))
        stacks[one] = len(variables)
        variables.append(Variable(empty, stack, inside.op("scatter_update", stack, place, row)))
    dropped = {one.at for one in sums}
    loop = with_variables(
        node, variables, dropped, body.replace(nodes=(*body.nodes, *inside.nodes))
    )
    added = loop.outputs[len(loop.outputs) - len(variables) :]

    def stacked(one: _Factor) -> Tensor:
        contracted, other = one.dims
        shape = after.const([iterations * contracted, other])
        return after.op("reshape", added[stacks[one]], shape)

    for added_up in sums:
        terms = [node.inputs[added_up.at]]
        for left, right in added_up.products:
            a, b = stacked(left), stacked(right)
            terms.append(after.op("matmul", a, b, transpose_a=True, transpose_b=False))
        total = terms[0]
        for term in terms[1:]:
            total = after.op("add", total, term)
        after.ended(node.outputs[added_up.at])
    return [*before.nodes, loop, *after.nodes]


def _application(
    ops: OpSet, node: Node, sums: Sequence[_Sum], iterations: int, made: Sequence[Node]
) -> Application:
    after = [one for one in made if not one.subgraphs]
    added = sum(len(one.products) * node.inputs[one.at].nbytes for one in sums)
    return Application(
        FAMILY,
        "stack",
        REWRITES[0].identity,
        node.name,
        node.source,
        iterations * sum(node.inputs[one.at].size * len(one.products) for one in sums),
        sum(map(ops.flops, after)),
        3 * iterations * added,
        sum(tensor.nbytes for one in after for tensor in (*one.inputs, *one.outputs)),
    )


REWRITES = (GraphRewrite(FAMILY, stack),)
