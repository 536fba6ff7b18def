"""Sums and products of short floats over chunks: carried in float32, and rounded once.

A kernel adds bfloat16 and float16 in float32 and rounds the sum. If the sum of each chunk and the
running total were rounded to 8 or 11 bits, nothing would be left of the sum over a long axis. So
the node whose partial results are combined reads float32, and the total is cast to the short dtype
after the loop.

A sum that a body completes reads a narrower matrix than in the whole program. Kernels add float16
in its own precision, in an order that depends on the shape. So these sums are wide as well. So are
`einsum`s, whose kernel adds products in the precision of the operands: the error of [m, 800] times
[800, n] in bfloat16 is 1 % for n = 1, 3 % for 64 and 5 % for 2, and for `matmul` it is 0.5 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import make_node
from tf_exla.ir.graph import Combine, Loop, Node, SplitAxis, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.split.loops.factors import wide
from tf_exla.split.regions.origins import MEANS

ROUNDED: frozenset[Combine] = frozenset({"add", "mul"})
"""Combiners that round; a maximum does not, since it equals one of the combined numbers."""

_ADDED_WIDE = "bfloat16"
"""The short dtype for which kernels of sums and means accumulate in float32 themselves."""


def widened(
    ops: OpSet,
    nodes: Sequence[Node],
    results: Mapping[Tensor, Combine],
    carried: dict[Tensor, SplitAxis],
) -> tuple[list[Node], dict[Tensor, Tensor]]:
    """Let nodes whose sums would be rounded compute them in float32.

    Return the nodes with these replaced, in order, and a map from each short result that a loop
    combines to its wide replacement. `results`: how the loop combines the results of `nodes`. The
    slots of new tensors are added to `carried`.
    """
    short = {
        tensor
        for tensor, combine in results.items()
        if combine in ROUNDED and wide(tensor.dtype) != tensor.dtype
    }
    chosen = {
        node for node in nodes if not short.isdisjoint(node.outputs) or _rounds_itself(ops, node)
    }
    if not chosen:
        return list(nodes), {}
    made: list[Node] = []
    known: dict[Tensor, Tensor] = {}  # short operands to wide ones
    ends: dict[Tensor, Tensor] = {}
    for node in nodes:
        if node not in chosen:
            made.append(node)
            continue
        inputs = []
        for tensor in node.inputs:
            if tensor not in known and wide(tensor.dtype) != tensor.dtype:
                cast = _cast(ops, tensor, wide(tensor.dtype))
                made.append(cast)
                known[tensor] = cast.output
                if tensor in carried:
                    carried[cast.output] = carried[tensor]
            inputs.append(known.get(tensor, tensor))
        outputs = tuple(
            Tensor(one.shape, wide(one.dtype), f"{one.name}/wide")
            if wide(one.dtype) != one.dtype
            else one
            for one in node.outputs
        )
        attrs = {
            key: wide(value) if isinstance(value, str) else value
            for key, value in node.attrs.items()
        }
        made.append(node.replace(inputs=tuple(inputs), outputs=outputs, attrs=attrs))
        for old, new in zip(node.outputs, outputs, strict=True):
            if new is old:
                continue
            if old in carried:
                carried[new] = carried[old]
            if old in short:
                ends[old] = new
            else:  # a result that is not combined
                made.append(dataclasses.replace(_cast(ops, new, old.dtype), outputs=(old,)))
    return made, ends


def _rounds_itself(ops: OpSet, node: Node) -> bool:
    """Return whether a node's kernel sums or multiplies elements in a short precision."""
    operands = [tensor for tensor in node.inputs if tensor.value is None]
    if node.op == "einsum" and len(operands) > 1:
        return wide(node.output.dtype) != node.output.dtype
    if len(operands) != 1 or wide(operands[0].dtype) == operands[0].dtype:
        return False
    rule = ops.rule(node)
    combiners = set(rule.combine.values()) if isinstance(rule, AxisRule) else set()
    combiners |= {"add"} if node.op in MEANS else set()
    if operands[0].dtype == _ADDED_WIDE:
        combiners.discard("add")
    return not ROUNDED.isdisjoint(combiners)


def shortened(ops: OpSet, loop: Loop, results: Sequence[Tensor]) -> list[Node]:
    """Return the nodes that cast a loop's wide outputs to `results`."""
    return [
        dataclasses.replace(_cast(ops, wide_one, one.dtype), outputs=(one,), source=loop.source)
        for wide_one, one in zip(loop.outputs, results, strict=True)
        if wide_one is not one
    ]


def _cast(ops: OpSet, tensor: Tensor, dtype: str) -> Node:
    return make_node(ops, "astype", (tensor,), {"dtype": dtype}, f"{tensor.name}/{dtype}")
