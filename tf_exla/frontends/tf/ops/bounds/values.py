"""Upper bounds of integers that data decide: sizes, or indices that say how many rows there are.

Each rule returns bounds of the integers in a node's results, one for each element or one for all;
None where there is none. Integers below zero are bounded as well, by what is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_exla.frontends.numpy.kernels import KERNELS
from tf_exla.ir.bounds import Most, highest
from tf_exla.ir.graph import Array, Node, Tensor, item_bytes

Bounds = Sequence[tuple[int, ...] | None]


def shape(node: Node, operands: Sequence[Most]) -> Bounds:
    """The sizes of each operand."""
    return [None if one.dims is None or None in one.dims else one.dims for one in operands]  # type: ignore[misc]


def size(node: Node, operands: Sequence[Most]) -> Bounds:
    """The number of elements; what is counted in a histogram is no more."""
    return [None if operands[0].size is None else (operands[0].size,)]


def position(node: Node, operands: Sequence[Most]) -> Bounds:
    """A position along some axis."""
    if not operands[0].dims or None in operands[0].dims:
        return [None]
    largest = max(one for one in operands[0].dims if one is not None)
    return [(max(0, largest - 1),)]


def top_k(node: Node, operands: Sequence[Most]) -> Bounds:
    """Values as they are, positions along the last axis."""
    last = operands[0].dims[-1] if operands[0].dims else None
    return [None, None if last is None else (max(0, last - 1),)]


def mask(node: Node, operands: Sequence[Most]) -> Bounds:
    """The bits of a mask that is not negative are at most the mask."""
    pairs = zip(operands, node.inputs, strict=True)
    known = [one.top for one, tensor in pairs if tensor.value is not None and one.top is not None]
    return [(min(known),) if known else None]


def minimum(node: Node, operands: Sequence[Most]) -> Bounds:
    """The smallest bound."""
    known = [one.top for one in operands if one.top is not None]
    return [(min(known),) if known else None]


def clipped(node: Node, operands: Sequence[Most]) -> Bounds:
    """At most the upper end."""
    return [_all(operands[2].top)]


def remainder(node: Node, operands: Sequence[Most]) -> Bounds:
    """Less than a static divisor."""
    top = operands[1].top
    return [None if node.inputs[1].value is None or top is None else (max(0, top - 1),)]


def quotient(node: Node, operands: Sequence[Most]) -> Bounds:
    """Divided by the least static positive integer, or by a size, which is at least one."""
    divisor, top = node.inputs[1].value, operands[0].top
    if top is None or (operands[1].top is None if divisor is None else not np.all(divisor >= 1)):  # type: ignore[operator]
        return [None]
    least = 1 if divisor is None or not divisor.size else int(divisor.min())
    return [(top // least,)]


def difference(node: Node, operands: Sequence[Most]) -> Bounds:
    """What is subtracted is a size: not below zero, as far as it has a bound."""
    return [None if operands[1].top is None else _all(operands[0].top)]


def total(node: Node, operands: Sequence[Most]) -> Bounds:
    """Each term at its largest."""
    top, count = operands[0].top, operands[0].size
    return [None if top is None or count is None else _folded(node, operands) or (top * count,)]


def running(node: Node, operands: Sequence[Most]) -> Bounds:
    """Each term at its largest, along the longest axis."""
    top, dims = operands[0].top, operands[0].dims
    if top is None or not dims or None in dims:
        return [None]
    return [(top * max(one for one in dims if one is not None),)]


def cast(node: Node, operands: Sequence[Most]) -> Bounds:
    """A truth value is at most one; a shorter integer is at most the largest of its dtype."""
    if node.inputs[0].dtype == "bool":
        return [(1,)]
    known, dtype = operands[0].value, node.output.dtype
    if known is None or "int" not in dtype:
        return [known]
    return [tuple(min(value, int(np.iinfo(dtype).max)) for value in known)]


def of_operand(node: Node, operands: Sequence[Most]) -> Bounds:
    """Results that hold integers of the first operand."""
    top = operands[0].top
    rest = [None] * (len(node.outputs) - 1)
    return [None if top is None else _folded(node, operands) or (top,), *rest]


def monotone(node: Node, operands: Sequence[Most]) -> Bounds:
    """Larger operands make larger results."""
    return [None if any(one.top is None for one in operands) else _folded(node, operands)]


def added(node: Node, operands: Sequence[Most]) -> Bounds:
    """Each term at its largest."""
    tops = [one.top for one in operands]
    if None in tops:
        return [None]
    return [_folded(node, operands) or (sum(one for one in tops if one is not None),)]


def product(node: Node, operands: Sequence[Most]) -> Bounds:
    """Both factors at their largest, of which one is static: two below zero may make more."""
    left, right = (one.top for one in operands)
    if left is None or right is None:
        return [None]
    known = any(tensor.value is not None for tensor in node.inputs)
    return [_folded(node, operands) or ((left * right,) if known else None)]


def largest(node: Node, operands: Sequence[Most]) -> Bounds:
    """Each integer of a result is one of the operands'."""
    top = highest([one.top for one in operands])
    return [None if top is None else _folded(node, operands) or (top,)]


def either(node: Node, operands: Sequence[Most]) -> Bounds:
    """Each integer is one of the second or of the third operand's."""
    return [_all(highest([one.top for one in operands[1:3]]))]


def _all(top: int | None) -> tuple[int, ...] | None:
    return None if top is None else (top,)


_ARITHMETIC = frozenset({"add", "add_n", "cumprod", "cumsum", "multiply", "prod", "sum"})
"""Ops whose results may be larger than their dtype holds."""


def _folded(node: Node, operands: Sequence[Most]) -> tuple[int, ...] | None:
    """Compute the result of the largest operands.

    The largest operands may overflow where those of a call do not: arithmetic is done in Python's
    integers, and no result of a call is larger than its dtype holds.
    """
    if len(node.outputs) != 1 or not node.output.is_static:
        return None
    inputs = []
    for tensor, most in zip(node.inputs, operands, strict=True):
        value = tensor.value if tensor.value is not None else largest_value(tensor, most)
        if value is None or value.size * item_bytes(tensor.dtype) > _FOLDED_BYTES:
            return None
        inputs.append(Tensor(value.shape, tensor.dtype, tensor.name, value))
    if node.op in _ARITHMETIC:
        exact = [np.asarray(one.value, object) for one in inputs]
        found: list[Array] | None = [np.asarray(KERNELS[node.op](node, *exact), object)]
    else:
        from tf_exla.frontends.tf.folding import fold  # TensorFlow computes it

        found = fold(node.op, inputs, node.attrs, 1)
    if found is None or found[0].dtype.kind not in "iuO" or bool(np.any(np.less(found[0], 0))):
        return None
    ceiling = int(np.iinfo(node.output.dtype).max)
    return tuple(min(int(one), ceiling) for one in found[0].ravel())


_FOLDED_BYTES = 1024


def largest_value(tensor: Tensor, most: Most) -> Array | None:
    """Return a value of a tensor whose integers are all as large as they can be."""
    if most.value is None or not tensor.is_static:
        return None
    values = most.value * tensor.size if len(most.value) == 1 else most.value
    if len(values) != tensor.size or max(values, default=0) > np.iinfo(tensor.dtype).max:
        return None
    return np.array(values, tensor.dtype).reshape(tensor.dims)
