"""Upper bounds of integers that data decide: sizes, or indices that say how many rows there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_exla.bounds import Most
from tf_exla.frontends.tf.folding import fold
from tf_exla.frontends.tf.rule_builders import words
from tf_exla.graph import Array, Node, Tensor, item_bytes


def value_bounds(node: Node, operands: Sequence[Most]) -> list[tuple[int, ...] | None]:
    """Return upper bounds of the integers in a node's results: they may be sizes, or indices."""
    nothing: list[tuple[int, ...] | None] = [None for _ in node.outputs]
    if not any("int" in tensor.dtype for tensor in node.outputs):
        return nothing
    tops = [one.top for one in operands]
    if node.op in ("Shape", "ShapeN"):
        return [None if one.dims is None or None in one.dims else one.dims for one in operands]  # type: ignore[misc]
    if node.op == "Size":
        return [None if operands[0].size is None else (operands[0].size,)]
    if node.op == "Cast" and node.inputs[0].dtype == "bool":
        return [(1,)]
    if node.op in ("ArgMax", "ArgMin") and operands[0].dims:
        sizes = [one for one in operands[0].dims if one is not None]
        return [(max(0, max(sizes, default=1) - 1),) if len(sizes) == len(operands[0].dims)
                else None]  # fmt: skip
    if node.op == "TopKV2" and operands[0].dims and operands[0].dims[-1] is not None:
        return [None, (max(0, operands[0].dims[-1] - 1),)]
    if node.op == "BitwiseAnd":  # with a mask that is not negative: at most the mask
        masks = [top for top, one in zip(tops, node.inputs, strict=True) if one.value is not None]
        known = [one for one in masks if one is not None]
        return [(min(known),) if known else None]
    if node.op == "HistogramFixedWidth":
        return [None if operands[0].size is None else (operands[0].size,)]
    if node.op == "Minimum":
        known = [one for one in tops if one is not None]
        return [(min(known),) if known else None]
    if node.op == "ClipByValue":
        return [None if tops[2] is None else (tops[2],)]
    if node.op in ("FloorMod", "Mod", "TruncateMod"):
        return [None if node.inputs[1].value is None or tops[1] is None else (max(0, tops[1] - 1),)]
    if node.op == "FloorDiv":
        divisor = node.inputs[1].value
        small = tops[0] is None or divisor is None or divisor.size != 1 or int(divisor) < 1
        return [None if small else (int(tops[0] or 0) // int(divisor),)]  # type: ignore[arg-type]
    if node.op == "Sub":
        # What is subtracted is a size: not below zero, as far as it has a bound.
        return [None if tops[1] is None or tops[0] is None else (tops[0],)]
    if node.op == "Sum" and tops[0] is not None and operands[0].size is not None:
        return [_folded(node, operands) or (tops[0] * operands[0].size,)]
    if node.op in _GATHERING and tops[0] is not None:
        return [_folded(node, operands) or (tops[0],), *nothing[1:]]
    if node.op in _MONOTONE and None not in tops:
        folded = _folded(node, operands)
        if folded is not None:
            return [folded]
        if node.op in ("Pack", "ConcatV2", "Maximum", "SelectV2"):
            return [(max(one for one in tops if one is not None),)]
    return nothing


# Results that hold numbers of the first operand.
_GATHERING = frozenset(
    words("""
    Cast ExpandDims GatherNd GatherV2 Identity Max Min Reshape ReverseV2 Slice Squeeze StridedSlice
    Tile Transpose BroadcastTo EnsureShape StopGradient Snapshot
    """)
)
# Larger operands make larger results.
_MONOTONE = frozenset(words("Add AddV2 ConcatV2 Maximum Mul Pack Prod SelectV2"))


def _folded(node: Node, operands: Sequence[Most]) -> tuple[int, ...] | None:
    """Compute the result of the largest operands."""
    if len(node.outputs) != 1 or not node.output.is_static:
        return None
    inputs = []
    for tensor, most in zip(node.inputs, operands, strict=True):
        value = tensor.value if tensor.value is not None else largest_value(tensor, most)
        if value is None or value.size * item_bytes(tensor.dtype) > _FOLDED_BYTES:
            return None
        inputs.append(Tensor(value.shape, tensor.dtype, tensor.name, value))
    found = fold(node.op, inputs, node.attrs, 1)
    if found is None or found[0].dtype.kind not in "iu" or bool(np.any(np.less(found[0], 0))):
        return None
    return tuple(int(one) for one in found[0].ravel())


_FOLDED_BYTES = 1024


def largest_value(tensor: Tensor, most: Most) -> Array | None:
    """Return a value of a tensor whose integers are all as large as they can be."""
    if most.value is None or not tensor.is_static:
        return None
    values = most.value * tensor.size if len(most.value) == 1 else most.value
    if len(values) != tensor.size or max(values, default=0) > np.iinfo(tensor.dtype).max:
        return None
    return np.array(values, tensor.dtype).reshape(tensor.dims)
