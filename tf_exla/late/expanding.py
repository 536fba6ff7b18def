"""Expanding: a top-k of long rows is found by the maxima of groups of elements.

This is a late pass, since splitting needs the op `top_k` itself, whose results over chunks it
merges.
"""

from __future__ import annotations

import dataclasses

from tf_exla.ir.builder import Builder
from tf_exla.ir.dtypes import INTEGERS
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.model.cost import LIKELY
from tf_exla.model.top_k import Groups, find_groups

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
LONGEST = 2**31 - 1


def expand(graph: Graph, ops: OpSet) -> Graph:
    """Expand the `top_k` nodes of one graph where that is faster.

    A row is cut into groups of neighbours. Its k largest elements are in the k groups with the
    largest maxima, if the leftmost of equal maxima comes first, as it does of equal elements.
    Proof: let e be an element of another group. Each of the k groups has an element that comes
    before e: its maximum is larger than that of e's group, or as large and further to the left. So
    e is not among the first k.

    The chosen groups are searched in the order of the row, so that the leftmost of equal elements
    still comes first. All comparisons with a NaN are false, so the kernel's result for it depends
    on the order of the elements. So operands with a NaN are left to the kernel.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(_expanded(node, ops) or (node,))
    return graph.with_nodes(nodes)


def _expanded(node: Node, ops: OpSet) -> list[Node] | None:
    if node.op != "top_k" or not all(t.is_static for t in (*node.inputs, *node.outputs)):
        return None
    x = node.inputs[0]
    if x.dtype not in FLOATS | INTEGERS or x.dims[-1] > LONGEST:
        return None
    groups = find_groups(x.dims, node.outputs[0].dims[-1], ops.rates())
    return None if groups is None else _by_groups(node, groups, ops)


def _by_groups(node: Node, groups: Groups, ops: OpSet) -> list[Node]:
    w = Builder(node, ops)
    x = node.inputs[0]
    *batch, _ = x.dims
    rank, whole = len(batch), groups.size * groups.count
    head, tail = x, None
    if groups.tail:
        head = _cut(w, x, 0, whole)
        tail = _cut(w, x, whole, groups.tail)
    grouped = w.op("reshape", head, w.const([*batch, groups.count, groups.size]))
    maxima = w.op("max", grouped, w.const([rank + 1]), keep_dims=False)
    read = (grouped, maxima) if tail is None else (grouped, maxima, tail)
    if x.dtype in INTEGERS:
        inner = Builder(node, ops)
        made = _among(inner, node, groups, *read)
        ends = dict(zip(made, node.outputs, strict=True))
        return [*w.nodes, *(one.renamed(ends) for one in inner.nodes)]
    tested = maxima if tail is None else w.op("concat", maxima, tail, w.const(rank))
    test = w.op("any", w.op("isnan", tested), w.const(range(rank + 1)), keep_dims=False)
    operands = (x, *read)
    branches: dict[str, object] = {"then_branch": _whole(node, ops, operands)}
    branches["else_branch"] = _chosen(node, groups, ops, operands)
    branches[LIKELY] = "else_branch"
    name = f"{node.name or node.op}/groups"
    choice = Node("cond", (test, *operands), node.outputs, branches, name=name, source=node.source)
    return [*w.nodes, choice]


def _cut(w: Builder, x: Tensor, begin: int, size: int) -> Tensor:
    *batch, _ = x.dims
    return w.op("slice", x, w.const([*[0] * len(batch), begin]), w.const([*batch, size]))


def _whole(node: Node, ops: OpSet, operands: tuple[Tensor, ...]) -> Graph:
    """Return the branch for operands with a NaN, which runs the kernel on whole rows."""
    inputs = tuple(map(_mirror, operands))
    w = Builder(node, ops)
    attrs = {**node.attrs, "Tk": "int32"}
    outputs = tuple(map(_mirror, node.outputs))
    k = w.const(outputs[0].dims[-1])
    top = dataclasses.replace(node, inputs=(inputs[0], k), outputs=outputs, attrs=attrs)
    return Graph(inputs, (*w.nodes, top), outputs)


def _chosen(node: Node, groups: Groups, ops: OpSet, operands: tuple[Tensor, ...]) -> Graph:
    """Return the branch that searches the groups with the largest maxima."""
    inputs = tuple(map(_mirror, operands))
    w = Builder(node, ops)
    outputs = _among(w, node, groups, *inputs[1:])
    return Graph(inputs, tuple(w.nodes), outputs)


def _mirror(tensor: Tensor) -> Tensor:
    return Tensor(tensor.shape, tensor.dtype, tensor.name)


def _among(
    w: Builder,
    node: Node,
    groups: Groups,
    grouped: Tensor,
    maxima: Tensor,
    tail: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the top k of the elements in the tail and the groups with the k largest maxima."""
    k = node.outputs[0].dims[-1]
    *batch, _ = maxima.dims
    rank = len(batch)
    axis = w.const(rank)
    _, best = _top_k(w, node, maxima, k, ordered=False)
    back, _ = _top_k(w, node, w.op("negative", best), k, ordered=True)
    chosen = w.op("negative", back)
    candidates = w.op("take", grouped, chosen, axis, batch_dims=rank)
    candidates = w.op("reshape", candidates, w.const([*batch, k * groups.size]))
    if tail is not None:
        candidates = w.op("concat", candidates, tail, axis)
        last = w.op("full", w.const([*batch, 1]), w.const(groups.count))
        chosen = w.op("concat", chosen, last, axis)
    values, places = _top_k(w, node, candidates, k, ordered=bool(node.attrs.get("sorted", True)))
    # `places` are (position of the group in `chosen`) * size + (position in the group).
    size = w.const(groups.size)
    position = w.op("floor_divide", places, size)
    group = w.op("take", chosen, position, axis, batch_dims=rank)
    index = w.op("add", places, w.op("multiply", w.op("subtract", group, position), size))
    dtype = node.outputs[1].dtype
    return values, index if dtype == "int32" else w.op("astype", index, dtype=dtype)


def _top_k(w: Builder, node: Node, x: Tensor, k: int, ordered: bool) -> tuple[Tensor, Tensor]:
    *batch, _ = x.dims
    name = f"{w.name}/top"
    values = Tensor((*batch, k), x.dtype, f"{name}/values")
    places = Tensor((*batch, k), "int32", f"{name}/places")
    attrs = {"index_type": "int32", "sorted": ordered}
    operands = (x, w.const(k))
    w.nodes.append(Node("top_k", operands, (values, places), attrs, name=name, source=w.source))
    return values, places
