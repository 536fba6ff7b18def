"""Rewrites that find chains of matrices, and multiply them in the cheapest order."""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor, item_bytes
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import MATRIX_PRODUCTS
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import Factor, Scale, as_product, is_float, reshape, strip, sum_axes
from tf_exla.rewrite.chain import Diagonal, Element, Ones, multiply, order_within, reverse
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.diagonal import as_diagonal, as_scaling
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "chains"


def elements_of(
    site: RewriteContext, factor: Factor, shared: bool, root: bool = True
) -> tuple[Scale, tuple[Element, ...], int]:
    """Return the scalar and the elements of a product, and the size of its largest result.

    `shared`: also expand operands that are products with other readers. `root`: `factor` is the
    product itself, not one of its operands.
    """
    passed: list[Tensor] = []
    scale, inner = strip(site, factor.tensor, passed)
    if factor.transposed:
        inner = inner.flipped
    tensor = inner.tensor
    if not root and not shared and any(site.uses(each) > 1 for each in passed):
        return Scale(), (factor,), 0
    pair = as_product(site, tensor)
    if pair is not None:
        parts = [elements_of(site, each, shared, root=False) for each in pair]
        scale = scale * parts[0][0] * parts[1][0]
        found = (*parts[0][1], *parts[1][1])
        most = max(tensor.size, parts[0][2], parts[1][2])
        return scale, reverse(found) if inner.transposed else found, most
    outer = None if root else _outer(site, tensor)
    if outer is not None:
        return scale, reverse(outer) if inner.transposed else outer, tensor.size
    diagonal = as_diagonal(site, tensor)
    if diagonal is not None:
        return scale, (Diagonal(diagonal),), 0
    scaling = as_scaling(site, tensor)
    if scaling is not None:
        vector, rest, on_left = scaling
        under, found, most = elements_of(site, Factor(rest), shared, root=False)
        found = (Diagonal(vector), *found) if on_left else (*found, Diagonal(vector))
        most = max(most, tensor.size)
        return scale * under, reverse(found) if inner.transposed else found, most
    if scale.is_one and inner == factor:
        return scale, (factor,), 0
    return scale, (inner,), 0


def _outer(site: RewriteContext, tensor: Tensor) -> tuple[Element, ...] | None:
    """Return the column and the row of which a matrix is the outer product, written as `p * q`."""
    node = site.maker(tensor, "multiply")
    if node is None or not is_float(tensor) or len(tensor.dims) < 2:
        return None
    *batch, rows, columns = tensor.dims
    for column, row in (node.inputs, node.inputs[::-1]):
        if not (column.is_static and row.is_static) or min(rows, columns) < 2:
            return None
        wide = row.dims if len(row.dims) > 1 else (1, *row.dims)
        if column.dims == (*batch, rows, 1) and wide == (*batch, 1, columns):
            return Factor(column), Factor(reshape(site, row, wide))
    return None


def matrix_chain(site: RewriteContext, node: Node) -> Proposals:
    """a (b c) = (a b) c, s (a b) = (s a) b, (diag(d) a) b = diag(d) (a b), in the cheapest order"""
    if not is_float(node.output) or len(node.output.dims) < 2 or node.output.size == 0:
        return
    if _is_inner(site, node):
        return
    tried: set[tuple[Element, ...]] = set()
    for shared in (True, False):
        site.begin(node)
        scale, elements, most = elements_of(site, Factor(node.output), shared)
        matrices = sum(isinstance(element, Factor) for element in elements)
        if elements in tried or (matrices < 2 and node.op not in MATRIX_PRODUCTS):
            continue
        tried.add(elements)
        yield _in_order(site, node, scale, elements, most, node.output.dims)


def _is_inner(site: RewriteContext, node: Node) -> bool:
    """Return whether a product is an operand of a longer chain: its only reader is a product."""
    readers = site.readers.get(node.output, ())
    if node.output in site.outputs or len(readers) != 1:
        return False
    reader = readers[0][0]
    return reader.op in MATRIX_PRODUCTS and as_product(site, reader.output) is not None


def sum_of_product(site: RewriteContext, node: Node) -> Proposals:
    """sum(a b, 1) = a sum(b, 1), sum(a b, 0) = sum(a, 0) b: a sum is a product with ones"""
    found = sum_axes(node)
    operand = node.inputs[0]
    if found is None or not is_float(operand) or operand.size == 0:
        return
    axes, _ = found
    count = len(operand.dims)
    if count < 2 or not axes or not axes <= {count - 1, count - 2}:
        return
    tried: set[tuple[Element, ...]] = set()
    for shared in (True, False):
        site.begin(node)
        scale, elements, most = elements_of(site, Factor(operand), shared, root=False)
        if elements in tried or (len(elements) < 2 and scale.is_one) or _without_matrix(elements):
            continue
        tried.add(elements)
        rows, columns = operand.dims[-2:]
        if count - 1 in axes:
            elements = (*elements, Ones(columns, 1))
        if count - 2 in axes:
            elements = (Ones(1, rows), *elements)
        yield _in_order(site, node, scale, elements, max(most, operand.size), None)


def _room(site: RewriteContext, node: Node) -> int | None:
    """Return how many elements of the node's dtype fit the budget; None if there is no budget."""
    return None if site.budget is None else max(site.budget, 0) // item_bytes(node.output.dtype)


def _without_matrix(elements: tuple[Element, ...]) -> bool:
    return not any(isinstance(element, Factor) for element in elements)


def _in_order(
    site: RewriteContext,
    node: Node,
    scale: Scale,
    elements: tuple[Element, ...],
    most: int,
    shape: tuple[int, ...] | None,
) -> Tensor | Refusal:
    if len(elements) > SETTINGS.terms:
        return Refusal(
            f"the chain has {len(elements)} elements; at most {SETTINGS.terms} are tried"
        )
    if _without_matrix(elements):
        return Refusal("it is a product of diagonals, which the diagonals' own rewrites keep")
    order = order_within(elements, most, _room(site, node))
    if order is None:
        return Refusal("every order makes a larger matrix than the program does")
    made = multiply(site, elements, order, scale)
    if shape is None:
        return reshape(site, made, node.output.dims)
    if made.dims != shape:
        return Refusal(f"the chain has the shape {made.dims}, the product {shape}")
    return made


REWRITES = (
    Rewrite(
        FAMILY, matrix_chain, MATRIX_PRODUCTS | {"multiply", "divide", "negative", "permute_dims"}
    ),
    Rewrite(FAMILY, sum_of_product, frozenset({"sum"})),
)
