"""Assertions on large tensors: they are given of these what they look at.

`tf.debugging.assert_less(d, 2.0)` is a choice. The branch that fails is given all of d, so that its
message may show the first three elements, and d would have to be whole for that. Instead it is
given an *excerpt*, these elements: the maximum of d with everything else replaced by the least
number there is. `tf.debugging.check_numerics(d)` is given one number that is not finite for each
kind that d has. Both are found chunk by chunk, in a pass over d that is taken anyway.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np

from tf_exla.graph import Graph, Node, Tensor, with_subgraphs
from tf_exla.op_set import OpSet
from tf_exla.passes.lowering import Writer, position_dtype
from tf_exla.passes.sinking import CHOICES


def lighten(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Let assertions read less of tensors of more than `least` bytes, in sub-graphs too."""
    nodes: list[Node] = []
    checked: dict[Tensor, Tensor] = {}  # by the result of a check, which is its operand
    for old in graph.nodes:
        node = old
        if any(tensor in checked for tensor in node.inputs):
            inputs = tuple(checked.get(tensor, tensor) for tensor in node.inputs)
            node = dataclasses.replace(node, inputs=inputs)
        if node.op in CHOICES:  # before its branches: outside of them less is whole
            excerpts, node = _choice_with_excerpts(node, ops, least)
            nodes.extend(excerpts)
        node = with_subgraphs(node, lambda sub: lighten(sub, ops, least))
        if node.op == "CheckNumerics" and _is_large(node.inputs[0], least):
            checked[node.output] = node.inputs[0]
            nodes.extend(_check_of_kinds(node, ops))
        elif node.op == "Assert":
            nodes.extend(_with_excerpts(node, ops, least))
        else:
            nodes.append(node)
    outputs = tuple(checked.get(tensor, tensor) for tensor in graph.outputs)
    made = tuple(nodes)
    return graph if made == graph.nodes else graph.replace(nodes=made, outputs=outputs)


def _is_large(tensor: Tensor, least: int) -> bool:
    return tensor.is_static and tensor.nbytes > least


def _check_of_kinds(node: Node, ops: OpSet) -> tuple[Node, ...]:
    """Check two numbers instead of all: one is NaN where one of them is, one infinite likewise."""
    w = Writer(node, ops)
    x = node.inputs[0]
    everywhere = w.const(list(range(len(x.dims))))
    nan, finite = w.op("IsNan", x), w.op("IsFinite", x)
    infinite = w.op("Equal", nan, finite)  # neither
    zero = w.const(0, x.dtype)
    kinds = [
        w.op("SelectV2", w.op("Any", test, everywhere), w.const(value, x.dtype), zero)
        for test, value in ((nan, np.nan), (infinite, np.inf))
    ]
    parts = [w.op("Reshape", kind, w.const([1])) for kind in kinds]
    both = w.op("ConcatV2", *parts, w.const(0))
    output = Tensor(both.shape, both.dtype, node.output.name)
    return (*w.nodes, dataclasses.replace(node, inputs=(both,), outputs=(output,)))


def _with_excerpts(node: Node, ops: OpSet, least: int) -> tuple[Node, ...]:
    """Return what makes the excerpts, and the assertion that is given them."""
    w = Writer(node, ops)
    count = _summarized(node)
    inputs = list(node.inputs)
    for k, tensor in enumerate(node.inputs[1:], start=1):
        if count and _is_large(tensor, least):
            inputs[k] = _excerpt(w, tensor, count, least) or tensor
    if not w.nodes:
        return (node,)
    return (*w.nodes, dataclasses.replace(node, inputs=tuple(inputs)))


def _summarized(node: Node) -> int:
    """Return how many elements of a tensor an assertion shows, 0 if all."""
    summarize = node.attrs.get("summarize", 0)
    return max(summarize, 0) if isinstance(summarize, int) else 0


def _choice_with_excerpts(node: Node, ops: OpSet, least: int) -> tuple[list[Node], Node]:
    """Return what makes the excerpts, and the choice that is given them."""
    w = Writer(node, ops)
    inputs = list(node.inputs)
    branches = dict(node.subgraphs)
    for k, tensor in enumerate(node.inputs[1:]):
        count = _shown(branches.values(), k) if _is_large(tensor, least) else 0
        made = _excerpt(w, tensor, count, least) if count else None
        if made is not None:
            inputs[1 + k] = made
            branches = {key: _given(branch, k, made) for key, branch in branches.items()}
    if not w.nodes:
        return [], node
    attrs = {**node.attrs, **branches}
    return w.nodes, dataclasses.replace(node, inputs=tuple(inputs), attrs=attrs)


def _shown(branches: Collection[Graph], k: int) -> int:
    """Return how many elements of their k-th input the branches show; 0 if it has other uses."""
    count = 0
    for branch in branches:
        tensor = branch.inputs[k]
        for node in branch.nodes:
            if tensor not in node.inputs:
                continue
            shown = _summarized(node) if node.op == "Assert" else 0
            if not shown or node.inputs[0] is tensor:
                return 0
            count = max(count, shown)
        if tensor in branch.outputs:
            return 0
    return count


def _excerpt(w: Writer, x: Tensor, count: int, least: int) -> Tensor | None:
    """Make the first elements of `x`, one more than are shown: the message then ends in dots.

    Along the last axis; where that is shorter, along the last one that is long enough.
    """
    lowest = _lowest(x.dtype)
    if lowest is None or not x.dims:
        return None
    rank = len(x.dims)
    own = next((axis for axis in reversed(range(rank)) if x.dims[axis] > count), rank - 1)
    others = [axis for axis in range(rank) if axis != own]
    tests = [
        w.op(
            "Equal", w.positions(x.dims[axis], axis, rank), w.const(0, position_dtype(x.dims[axis]))
        )
        for axis in others
        if x.dims[axis] > 1
    ]
    if tests:
        x = _picked(w, x, functools.reduce(partial(w.op, "LogicalAnd"), tests), others, lowest)
    length = x.dims[own]
    x = w.op("Reshape", x, w.const([1, length]))
    shown = min(count + 1, length)
    if x.nbytes <= least:
        x = w.op("Slice", x, w.const([0, 0]), w.const([1, shown]))
    else:  # a part of a long axis would need it whole as well
        first = w.const(np.arange(shown).reshape(shown, 1), position_dtype(length))
        x = _picked(w, x, w.op("Equal", w.positions(length, 1, 2), first), [1], lowest)
    return w.op("Reshape", x, w.const([shown]))


def _picked(
    w: Writer, x: Tensor, where: Tensor, axes: Sequence[int], lowest: bool | int | float
) -> Tensor:
    """Reduce axes, which stay with size one, to the element at which `where` is true."""
    over = w.const(list(axes))
    if x.dtype == "bool":
        return w.op("Any", w.op("LogicalAnd", where, x), over, keep_dims=True)
    kept = w.op("SelectV2", where, x, w.const(lowest, x.dtype))
    return w.op("Max", kept, over, keep_dims=True)


def _lowest(dtype: str) -> bool | int | float | None:
    """Return what no element is below; None where a dtype has no order, or no maximum."""
    if dtype == "bool":
        return False
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return -np.inf
    if dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16"):
        return int(np.iinfo(dtype).min)
    return None


def _given(branch: Graph, k: int, excerpt: Tensor) -> Graph:
    """Return the branch with another k-th input."""
    old = branch.inputs[k]
    new = Tensor(excerpt.shape, excerpt.dtype, old.name)
    nodes = (
        dataclasses.replace(node, inputs=tuple(new if t is old else t for t in node.inputs))
        if old in node.inputs
        else node
        for node in branch.nodes
    )
    inputs = tuple(new if tensor is old else tensor for tensor in branch.inputs)
    return branch.replace(inputs=inputs, nodes=tuple(nodes))
