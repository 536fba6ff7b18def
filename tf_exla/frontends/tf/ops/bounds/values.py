"""Upper bounds of data-dependent integers: sizes, or indices that determine the number of rows.

Each rule returns bounds of the integers in a node's results, one for each element or one for all,
or None if there is none. Negative integers have bounds too, which are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tf_exla.frontends.numpy.kernels import KERNELS
from tf_exla.ir.bounds import Most, highest
from tf_exla.ir.graph import Array, Node, Shape, Tensor

Bounds = Sequence[Shape | None]
Rule = Callable[[Node, Sequence[Most]], Bounds]


def shape(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the sizes of each operand."""
    return [one.dims for one in operands]


def size(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the number of elements, which also bounds the counts of a histogram."""
    return [None if operands[0].size is None else (operands[0].size,)]


def position(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the last position along the longest axis."""
    if not operands[0].dims or None in operands[0].dims:
        return [None]
    largest = max(one for one in operands[0].dims if one is not None)
    return [(max(0, largest - 1),)]


def top_k(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return no bound for values, and the last position along the last axis."""
    last = operands[0].dims[-1] if operands[0].dims else None
    return [None, None if last is None else (max(0, last - 1),)]


def mask(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the smallest static mask: bits of a mask that is not negative are at most the mask."""
    pairs = zip(operands, node.inputs, strict=True)
    known = [one.top for one, tensor in pairs if tensor.value is not None and one.top is not None]
    return [(min(known),) if known else None]


def minimum(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the smallest bound."""
    known = [one.top for one in operands if one.top is not None]
    return [(min(known),) if known else None]


def clipped(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the bound of both ends, since a lower one above the upper one is the result."""
    tops, _ = _ends(node, operands)
    return [_all(highest(tops[1:3]))]


def remainder(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return one less than a static divisor."""
    top = operands[1].top
    return [None if node.inputs[1].value is None or top is None else (max(0, top - 1),)]


def quotient(node: Node, operands: Sequence[Most]) -> Bounds:
    """Divide by the least divisor: of a static one that, else one, or minus one."""
    left, right = operands
    divisor = node.inputs[1].value
    if divisor is not None and divisor.size and int(divisor.min()) >= 1:
        return [None if left.top is None else (left.top // int(divisor.min()),)]
    if left.top is None or right.top is None:
        return [None]
    if right.below == 0 or left.below == 0:  # numbers of different signs have no positive quotient
        return [(left.top,)]
    known = left.below is not None and right.below is not None
    return [(max(left.top, left.below or 0),) if known else None]


def difference(node: Node, operands: Sequence[Most]) -> Bounds:
    """Subtract the least subtrahend; there is no bound if that may be any negative number."""
    right = _below(node.inputs[1], operands[1])
    return [_all(_sum((_top(node.inputs[0], operands[0]), right)))]


def total(node: Node, operands: Sequence[Most]) -> Bounds:
    """Sum all terms at their largest."""
    top, count = operands[0].top, operands[0].size
    return [None if top is None or count is None else _folded(node, operands) or (top * count,)]


def running(node: Node, operands: Sequence[Most]) -> Bounds:
    """Sum terms at their largest along the longest axis."""
    top, dims = operands[0].top, operands[0].dims
    if top is None or not dims or None in dims:
        return [None]
    return [(top * max(one for one in dims if one is not None),)]


def cast(node: Node, operands: Sequence[Most]) -> Bounds:
    """Bound booleans by one, and shorter integers by the largest of their dtype."""
    if node.inputs[0].dtype == "bool":
        return [(1,)]
    known, dtype = operands[0].value, node.output.dtype
    if known is None or "int" not in dtype:
        return [known]
    if dtype.startswith("uint") and _below(node.inputs[0], operands[0]) != 0:
        return [None]  # integers below zero become large ones
    most = int(np.iinfo(dtype).max)
    return [tuple(None if value is None else min(value, most) for value in known)]


def of_operand(node: Node, operands: Sequence[Most]) -> Bounds:
    """Bound results that hold integers of the first operand; of none, the least of the dtype."""
    rest = [None] * (len(node.outputs) - 1)
    may_be_empty = _may_be_empty(node.inputs[0])
    if node.op == "min" and may_be_empty:
        return [None]  # the least of no integers is the largest of the dtype
    folded = None if may_be_empty else _folded(node, operands)
    return [folded or _all(operands[0].top), *rest]


def power(node: Node, operands: Sequence[Most]) -> Bounds:
    """Multiply all factors at their largest; there is no bound if several may be negative."""
    none = operands[0].top is None or operands[0].below != 0
    return [None if none else _folded(node, operands)]


def added(node: Node, operands: Sequence[Most]) -> Bounds:
    """Add all terms at their largest."""
    tops = [one.top for one in operands]
    if None in tops:
        return [None]
    return [_folded(node, operands) or (sum(one for one in tops if one is not None),)]


def product(node: Node, operands: Sequence[Most]) -> Bounds:
    """Multiply both factors at their largest, or at their smallest if both may be negative."""
    tops, below = _ends(node, operands)
    if None in tops:
        return [None]
    if below[0] != 0 and below[1] != 0:
        return [_all(highest((_times(*tops), _times(*below))))]
    known = any(tensor.value is not None for tensor in node.inputs)
    folded = _folded(node, operands) if below == [0, 0] else None
    return [folded or (_all(_times(*tops)) if known else None)]


def squared(node: Node, operands: Sequence[Most]) -> Bounds:
    """Square the number that is furthest from zero."""
    (furthest,) = absolute(node, operands)
    return [None if furthest is None else _all(_times(furthest[0], furthest[0]))]


def absolute(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the largest distance from zero."""
    tops, below = _ends(node, operands)
    return [_all(highest((tops[0], below[0])))]


def negated(node: Node, operands: Sequence[Most]) -> Bounds:
    return [_all(_below(node.inputs[0], operands[0]))]


def parts(node: Node, operands: Sequence[Most]) -> Bounds:
    """Slice the bounds of the operand."""
    value = largest_value(node.inputs[0], operands[0], partly=True)
    if value is None:
        return [_all(operands[0].top) for _ in node.outputs]
    axis = int(str(node.attrs.get("axis", 0)))
    return [tuple(np.ravel(np.take(value, k, axis))) for k in range(len(node.outputs))]


def sections(node: Node, operands: Sequence[Most]) -> Bounds:
    """Bound the integers of each part by those of all; the first operand of "split" is the axis."""
    return [_all(operands[node.op == "split"].top) for _ in node.outputs]


def stitched(node: Node, operands: Sequence[Most]) -> Bounds:
    """Put each element at its largest if the places are static; later elements overwrite."""
    half = len(operands) // 2
    top = _all(highest([one.top for one in operands[half:]]))
    if not node.output.is_static or len(node.output.dims) != 1:
        return [top]
    made: list[int | None] = [None] * node.output.size
    for places, tensor, most in zip(node.inputs[:half], node.inputs[half:], operands[half:],
                                    strict=True):  # fmt: skip
        value = largest_value(tensor, most, partly=True)
        if places.value is None or value is None or places.dims != tensor.dims:
            return [top]
        for place, one in zip(places.value.ravel(), value.ravel(), strict=True):
            made[place] = one
    return [tuple(made)]


def largest(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the largest bound: each integer of a result is an operand's."""
    return [_folded(node, operands) or _all(highest([one.top for one in operands]))]


def either(node: Node, operands: Sequence[Most]) -> Bounds:
    """Return the larger bound of the second and the third operand."""
    return [_all(highest([one.top for one in operands[1:3]]))]


def below_zero(node: Node, operands: Sequence[Most], rule: Rule) -> int | None:
    """Return how far below zero integers in a node's results may be; None if that is unknown.

    `rule`: the rule above that bounds them.
    """
    if rule in (shape, size, position, top_k, mask, squared, absolute):
        return 0
    tops, below = _ends(node, operands)
    if rule is negated:
        return tops[0]
    if rule is sections:
        return below[node.op == "split"]
    if rule is difference:
        return _sum((below[0], tops[1]))
    if rule is added:
        return _sum(below)
    if rule in (total, running):
        return _times(below[0], operands[0].size)
    if rule is quotient:
        return 0 if below[0] == 0 == below[1] else _sum((below[0], tops[0]))
    if rule is remainder:  # of a static divisor that is not negative
        truncated = min((one for one in (below[0], tops[1]) if one is not None), default=None)
        return 0 if node.op == "remainder" else truncated
    if rule is product:
        return highest((_times(below[0], tops[1]), _times(below[1], tops[0])))
    if node.op == "max" and _may_be_empty(node.inputs[0]):
        return None  # the largest of no integers is the least of the dtype
    if rule is cast and node.inputs[0].dtype != "bool":
        most = int(np.iinfo(node.output.dtype).max)
        return None if tops[0] is None or tops[0] > most else below[0]
    if node.op == "maximum":
        return min((one for one in below if one is not None), default=None)
    if rule in (either, clipped):
        return highest(below[1:3])
    if rule is stitched:
        return highest(below[len(below) // 2 :])
    if rule in (largest, minimum):
        return highest(below[:-1] if node.op == "concat" else below)
    return below[0]


def _ends(node: Node, operands: Sequence[Most]) -> tuple[list[int | None], list[int | None]]:
    """Return how far above and how far below zero the operands' integers may be."""
    pairs = list(zip(node.inputs, operands, strict=True))
    return [_top(*pair) for pair in pairs], [_below(*pair) for pair in pairs]


def _top(tensor: Tensor, most: Most) -> int | None:
    value = tensor.value  # bounds do not tell integers below zero from those that are unknown
    if value is not None and value.dtype.kind in "iu":
        return max(0, int(value.max())) if value.size else 0
    return most.top


def _below(tensor: Tensor, most: Most) -> int | None:
    if tensor.value is not None or tensor.dtype == "bool":
        return Most.of(tensor).below
    return None if most.top is None else most.below


def _sum(terms: Sequence[int | None]) -> int | None:
    return None if None in terms else sum(one for one in terms if one is not None)


def _times(one: int | None, other: int | None) -> int | None:
    return 0 if one == 0 else None if one is None or other is None else one * other


def _may_be_empty(tensor: Tensor) -> bool:
    return not (tensor.is_static and tensor.size)


def _all(top: int | None) -> Shape | None:
    return None if top is None else (top,)


_ARITHMETIC = frozenset({"add", "add_n", "cumprod", "cumsum", "multiply", "prod", "sum"})
"""Ops whose results may overflow their dtype."""


_OF_ALL = frozenset({"add", "add_n", "maximum", "multiply", "stack"})
"""Ops whose result is larger if any of their operands is."""

_MOVING = frozenset(
    {"concat", "expand_dims", "reshape", "squeeze", "stack", "strided_slice", "take"}
)
"""Ops that move elements without reading them, so that some may have no bound."""


def _folded(node: Node, operands: Sequence[Most]) -> Shape | None:
    """Compute the result of the largest operands.

    The largest operands may overflow where those of a call do not. So arithmetic is done in
    Python's integers, and cut to the largest of the dtype, which no result of a call exceeds.
    """
    if len(node.outputs) != 1 or not node.output.is_static:
        return None
    data = len(node.inputs) if node.op in _OF_ALL else -1 if node.op == "concat" else 1
    if any(tensor.value is None for tensor in node.inputs[data:]):
        return None  # the largest axes and indices need not select the largest elements
    inputs = []
    for tensor, most in zip(node.inputs, operands, strict=True):
        value = tensor.value
        if value is None and tensor.nbytes <= _FOLDED_BYTES:
            value = largest_value(tensor, most, partly=node.op in _MOVING)
        if value is None or tensor.nbytes > _FOLDED_BYTES:
            return None
        inputs.append(Tensor(value.shape, tensor.dtype, tensor.name, value))
    if node.op in _ARITHMETIC or node.op in _MOVING:
        exact = [np.asarray(one.value, object) for one in inputs[:data]]
        exact.extend(np.asarray(one.value) for one in inputs[data:])
        found: list[Array] | None = [np.asarray(KERNELS[node.op](node, *exact), object)]
    else:
        from tf_exla.frontends.tf.nodes.folding import fold  # TensorFlow computes it

        found = fold(node.op, inputs, node.attrs, 1)
    if found is None or found[0].dtype.kind not in "iuO":
        return None
    ceiling = int(np.iinfo(node.output.dtype).max)
    return tuple(
        None if one is None or one < 0 else min(int(one), ceiling) for one in found[0].ravel()
    )


_FOLDED_BYTES = 1024


def largest_value(tensor: Tensor, most: Most, partly: bool = False) -> Array | None:
    """Return a value of a tensor with all integers at their bounds, or None.

    `partly`: integers without a bound are None.
    """
    if most.value is None or not tensor.is_static:
        return None
    values = most.value * tensor.size if len(most.value) == 1 else most.value
    known = [one for one in values if one is not None]
    if len(values) != tensor.size or max(known, default=0) > np.iinfo(tensor.dtype).max:
        return None
    if len(known) < len(values) and not partly:
        return None
    return np.array(values, object if partly else tensor.dtype).reshape(tensor.dims)
