"""Messages about large tensors are made to read only the elements that they show.

`tf.debugging.assert_less(d, 2.0)` is a choice. Its failing branch reads all of d, although its
message shows only the first three elements, so d would have to be whole. The same applies to
`tf.print(d)`, which shows the corners, and to `tf.debugging.check_numerics(d)`, which reports NaN
and infinity. They read an excerpt instead (`excerpts.py`), or one number of each kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

import numpy as np

from tf_exla.ir.builder import Builder
from tf_exla.ir.control_flow import CHOICES
from tf_exla.ir.excerpts import beginning, corners
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import with_subgraphs


def lighten(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Let messages read less of tensors of more than `least` bytes, also in sub-graphs."""
    nodes: list[Node] = []
    checked: dict[Tensor, Tensor] = {}  # results of checks, which equal their operands
    for old in graph.nodes:
        node = old.substitute(checked)
        if node.op in CHOICES:  # before its branches: an excerpt inside would need it whole
            excerpts, node = _choice_with_excerpts(node, ops, least)
            nodes.extend(excerpts)
        node = with_subgraphs(node, lambda sub: lighten(sub, ops, least))
        if node.op == "check_numerics" and _is_large(node.inputs[0], least):
            checked[node.output] = node.inputs[0]
            nodes.extend(_check_of_kinds(node, ops))
        elif node.op in _EXCERPTS:
            nodes.extend(_with_excerpts(node, ops, least))
        else:
            nodes.append(node)
    return graph.with_nodes(nodes, checked)


def _is_large(tensor: Tensor, least: int) -> bool:
    return tensor.is_static and tensor.nbytes > least


def _check_of_kinds(node: Node, ops: OpSet) -> tuple[Node, ...]:
    """Return nodes that check two numbers instead of all elements of a tensor.

    One of them is NaN if any element is NaN, the other is infinite if any element is.
    """
    w = Builder(node, ops)
    x = node.inputs[0]
    everywhere = w.const(list(range(len(x.dims))))
    nan, finite = w.op("isnan", x), w.op("isfinite", x)
    infinite = w.op("equal", nan, finite)  # neither is true
    zero = w.const(0, x.dtype)
    kinds = [
        w.op("where", w.op("any", test, everywhere), w.const(value, x.dtype), zero)
        for test, value in ((nan, np.nan), (infinite, np.inf))
    ]
    parts = [w.op("reshape", kind, w.const([1])) for kind in kinds]
    both = w.op("concat", *parts, w.const(0))
    output = Tensor(both.shape, both.dtype, node.output.name)
    return (*w.nodes, dataclasses.replace(node, inputs=(both,), outputs=(output,)))


def _with_excerpts(node: Node, ops: OpSet, least: int) -> tuple[Node, ...]:
    """Return the nodes that make the excerpts, and the message that reads them."""
    w = Builder(node, ops)
    count = _summarized(node)
    if not count:
        return (node,)
    inputs = tuple(
        (_EXCERPTS[node.op](w, tensor, count, least) or tensor)
        if _is_large(tensor, least)
        else tensor
        for tensor in node.inputs
    )
    return (*w.nodes, dataclasses.replace(node, inputs=inputs)) if w.nodes else (node,)


_EXCERPTS: dict[str, Callable[[Builder, Tensor, int, int], Tensor | None]] = {
    "Assert": beginning,
    "StringFormat": corners,
}


def _summarized(node: Node) -> int:
    """Return how many elements of a tensor a message shows; 0: all."""
    summarize = node.attrs.get("summarize", 0)
    return max(summarize, 0) if isinstance(summarize, int) else 0


def _choice_with_excerpts(node: Node, ops: OpSet, least: int) -> tuple[list[Node], Node]:
    """Return the nodes that make the excerpts, and the choice that reads them."""
    w = Builder(node, ops)
    inputs = list(node.inputs)
    branches = dict(node.subgraphs)
    for k, tensor in enumerate(node.inputs[1:]):
        count = _shown(branches.values(), k) if _is_large(tensor, least) else 0
        made = beginning(w, tensor, count, least) if count else None
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


def _given(branch: Graph, k: int, excerpt: Tensor) -> Graph:
    """Return the branch with the excerpt as its k-th input."""
    old = branch.inputs[k]
    new = Tensor(excerpt.shape, excerpt.dtype, old.name)
    nodes = (node.substitute({old: new}) for node in branch.nodes)
    inputs = tuple(new if tensor is old else tensor for tensor in branch.inputs)
    return branch.replace(inputs=inputs, nodes=tuple(nodes))
