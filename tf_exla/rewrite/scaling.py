"""Scalars and diagonals are moved out of a large tensor if all its readers absorb them.

A sum, or a product with a small operand, can absorb a scaling of its large operand: it scales its
small operand or its result instead. If all readers of a large tensor can, a scaling moves from the
tensor's operands to the tensor, and from there into its readers. No step costs more than the nodes
it replaces, and in the end the large scaled tensors are dead. Gradients of kernels have many such
scalings: of `s * exp(d)` times an outer product, `exp(d)` is the only large tensor left.
"""

from __future__ import annotations

import math

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.traits import MATRIX_PRODUCTS, RESHAPES
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import (
    Factor,
    Scale,
    adds_as_product,
    as_product,
    as_scaled,
    as_transpose,
    is_float,
    reshape,
    scaled,
    strip,
    sum_axes,
)
from tf_exla.rewrite.chain import Diagonal, Element, Ones, best_order, multiply, reverse
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.diagonal import as_scaling, inverse, scaling_vector
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "scalings"

_ROUNDING = frozenset(
    {
        *("ceil", "floor", "floor_divide", "remainder", "round", "sign"),
        *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
    }
)
"""Ops whose result may depend on the last bit of an operand."""
_PASSING = frozenset(
    {"abs", "add", "maximum", "minimum", "negative", "permute_dims", "subtract", *RESHAPES}
)
_PASSED = 4  # the most ops that are followed from a scaled tensor to one of `_ROUNDING`


def absorbed(site: RewriteContext, tensor: Tensor) -> bool:
    """Return whether all readers of a matrix absorb a scaling of its rows or columns."""
    found = site.absorbed.get(tensor)
    if found is None:
        readers = site.readers.get(tensor, ())
        found = (
            bool(readers)
            and tensor not in site.outputs
            and is_float(tensor)
            and len(tensor.dims) >= 2
            and min(tensor.dims[-2:]) > 1
            and all(_absorbs(site, reader, tensor) for reader, _ in readers)
        )
        site.absorbed[tensor] = found
    return found


def _absorbs(site: RewriteContext, reader: Node, tensor: Tensor) -> bool:
    if len(reader.outputs) != 1 or not reader.output.is_static:
        return False
    out = reader.output
    if reader.op == "sum":
        found = sum_axes(reader)
        count = len(tensor.dims)
        return (
            found is not None
            and bool(found[0])
            and found[0] <= {count - 1, count - 2}
            and SETTINGS.small_operand * out.size <= tensor.size
            and adds_as_product(site, tensor, found[0])
        )
    if reader.op in MATRIX_PRODUCTS:
        if as_product(site, out) is None or SETTINGS.small_operand * out.size > tensor.size:
            return False
        return all(
            SETTINGS.small_operand * t.size <= tensor.size for t in reader.inputs if t is not tensor
        ) and (reader.inputs[0] is not reader.inputs[1])
    if reader.op == "permute_dims":
        return as_transpose(site, out) is tensor and absorbed(site, out)
    if reader.op == "divide" and reader.inputs[0] is not tensor:
        return False
    return (
        reader.op in ("multiply", "negative", "divide")
        and out.shape == tensor.shape
        and (absorbed(site, out))
    )


def scaling_leaves_product(site: RewriteContext, node: Node) -> Proposals:
    """(c a) * b = c (a * b), c a scalar or a diagonal, where all readers absorb c"""
    if not absorbed(site, node.output):
        return
    left, right = node.inputs
    pairs = [(left, right)] if node.op == "divide" else [(left, right), (right, left)]
    for tensor, other in pairs:
        if tensor.shape != node.output.shape or other.shape != node.output.shape:
            continue
        if as_scaled(site, node.output) is not None:  # `node` itself is a scaling by a scalar
            return
        inner = _layer(site, tensor)
        if inner is None:
            continue
        op, rest, by = inner
        operands = (rest, other) if node.op == "divide" or tensor is left else (other, rest)
        made = site.emit(node.op, *operands)
        yield site.emit(op, made) if by is None else site.emit(op, made, by)
        return


def _layer(site: RewriteContext, tensor: Tensor) -> tuple[str, Tensor, Tensor | None] | None:
    """Return the op, the large and the small operand (None for a negative) of a scaled tensor."""
    node = site.maker(tensor, "multiply", "divide", "negative")
    if node is None or not is_float(tensor):
        return None
    if node.op == "negative":
        return "negative", node.inputs[0], None
    found = as_scaled(site, tensor)
    if found is not None:
        rest = found[1]
    else:
        scaling = scaling_vector(site, tensor)
        if scaling is None:
            return None
        rest = scaling[1]
    by = next((each for each in node.inputs if each is not rest), None)
    return None if by is None else (node.op, rest, by)


def outer_product_is_scaling(site: RewriteContext, node: Node) -> Proposals:
    """(a bᵀ) * c = diag(a) c diag(b), a and b vectors, where all readers absorb them"""
    if not absorbed(site, node.output):
        return
    left, right = node.inputs
    for tensor, other in ((left, right), (right, left)):
        if tensor.shape != node.output.shape or other.shape != node.output.shape:
            continue
        scale, inner = strip(site, tensor)
        pair = as_product(site, inner.tensor)
        if pair is None:
            continue
        column, row = (pair[1].flipped, pair[0].flipped) if inner.transposed else pair
        if column.shape[-1] != 1:
            continue
        column_tensor = reshape(site, column.tensor, column.shape)
        row_tensor = reshape(site, row.tensor, row.shape)
        if scale.is_one:
            pass
        elif column_tensor.size <= row_tensor.size:
            column_tensor = scaled(site, column_tensor, scale)
        else:
            row_tensor = scaled(site, row_tensor, scale)
        yield site.emit("multiply", site.emit("multiply", other, row_tensor), column_tensor)
        return


def scaling_leaves_reader(site: RewriteContext, node: Node) -> Proposals:
    """(c a) b = c (a b), sum(c a) = c sum(a), c a scalar or a diagonal, where all readers do so"""
    if not is_float(node.output) or node.output.size == 0:
        return
    if node.op == "sum":
        found = sum_axes(node)
        operand = node.inputs[0]
        if found is None or not absorbed(site, operand):
            return
        scale, elements = _peeled(site, Factor(operand))
        if len(elements) == 1 and scale.is_one:
            return
        count = len(operand.dims)
        rows, columns = operand.dims[-2:]
        if count - 1 in found[0]:
            elements = (*elements, Ones(columns, 1))
        if count - 2 in found[0]:
            elements = (Ones(1, rows), *elements)
    else:
        pair = as_product(site, node.output)
        if pair is None or not any(absorbed(site, factor.tensor) for factor in pair):
            return
        scale, elements = Scale(), ()
        for factor in pair:
            one, found_elements = (
                _peeled(site, factor) if absorbed(site, factor.tensor) else (Scale(), (factor,))
            )
            scale, elements = scale * one, (*elements, *found_elements)
        if len(elements) == 2 and scale.is_one:
            return
    # No intermediate may be as large as the scaled tensor: a diagonal must not scale it again.
    order = best_order(elements, max(tensor.size for tensor in node.inputs) // 2)
    if order is not None:
        yield reshape(site, multiply(site, elements, order, scale), node.output.dims)


def _peeled(site: RewriteContext, factor: Factor) -> tuple[Scale, tuple[Element, ...]]:
    """Return the scalar and the chain of a matrix and the diagonals that scale its two sides."""
    tensor, transposed = factor.tensor, False
    scale = Scale()
    lefts: list[Element] = []
    rights: list[Element] = []
    while True:
        one, inner = strip(site, tensor)
        scale, tensor = scale * one, inner.tensor
        if inner.transposed:
            transposed = not transposed
        found = as_scaling(site, tensor)
        if found is None:
            break
        vector, tensor, on_left = found
        (lefts if on_left != transposed else rights).append(Diagonal(vector))
    elements = (*lefts, Factor(tensor, transposed), *reversed(rights))
    return scale, reverse(elements) if factor.transposed else elements


def two_scalings(site: RewriteContext, node: Node) -> Proposals:
    """c (d a) = (c d) a, c and d scalars, or diagonals on one side"""
    out = node.output
    if not is_float(out) or len(out.dims) < 2 or min(out.dims[-2:]) < 2:
        return
    if _is_rounded(site, out):
        return
    passed: list[Node] = []
    scale, vectors = Scale(), []
    tensor, side = out, None
    while True:
        layer = _layer(site, tensor)
        if layer is None or (passed and site.uses(tensor) > 1):
            break
        found = as_scaled(site, tensor)
        if found is not None:
            scale, rest = scale * found[0], found[1]
        else:
            vector = scaling_vector(site, tensor)
            assert vector is not None
            if side not in (None, vector[2]):
                break
            side = vector[2]
            vectors.append((layer[0], vector[0]))
            rest = vector[1]
        maker = site.maker(tensor, "multiply", "divide", "negative")
        assert maker is not None
        passed.append(maker)
        tensor = rest
    if len(passed) < 2 or (not vectors and math.isinf(scale.number)):
        return
    total: Tensor | None = None
    divisor: Tensor | None = None
    for op, vector_tensor in vectors:
        if op == "multiply":
            total = vector_tensor if total is None else site.emit("multiply", total, vector_tensor)
        else:
            divisor = (
                vector_tensor if divisor is None else site.emit("multiply", divisor, vector_tensor)
            )
    if total is None and divisor is None:
        yield scaled(site, tensor, scale)
    elif total is None and divisor is not None:
        if scale.is_one:
            yield site.emit("divide", tensor, divisor)
        else:
            yield site.emit("multiply", tensor, scaled(site, inverse(site, divisor), scale))
    else:
        assert total is not None
        if divisor is not None:
            total = site.emit("divide", total, divisor)
        yield site.emit("multiply", tensor, scaled(site, total, scale))


def _is_rounded(site: RewriteContext, tensor: Tensor, left: int = _PASSED) -> bool:
    """Return whether a tensor's numbers are soon rounded to integers, or compared."""
    for reader, _ in site.readers.get(tensor, ()):
        if reader.op in _ROUNDING or (reader.op == "astype" and "int" in reader.output.dtype):
            return True
        if left and reader.op in _PASSING and _is_rounded(site, reader.output, left - 1):
            return True
    return False


REWRITES = (
    Rewrite(FAMILY, two_scalings, frozenset({"multiply", "divide", "negative"})),
    Rewrite(FAMILY, scaling_leaves_product, frozenset({"multiply", "divide"}), normal=True),
    Rewrite(FAMILY, outer_product_is_scaling, frozenset({"multiply"}), normal=True),
    Rewrite(FAMILY, scaling_leaves_reader, MATRIX_PRODUCTS | {"sum"}, normal=True),
)
