"""Recomputing: a cluster recomputes results of an earlier cluster if that is cheaper.

The gradient of a kernel reads many intermediate results of the kernel: sums, products, scales. If a
solve that XLA does not compile lies between the two, they are two clusters. Tensors that pass from
one to the other are written to memory and read again. Those of a few flops per element are
recomputed from tensors that are read anyway; inside a cluster they stay in registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from tf_exla.ir.clean import drop_dead
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import consumers
from tf_exla.model.settings import SETTINGS
from tf_exla.split.regions.origins import clash, tests_order


def recompute(body: Graph, ops: OpSet) -> Graph:
    """Let the clusters of a body recompute results that are cheaper to compute than to read."""
    made = _recomputed(body, ops, lambda one: True)
    if made is body or not tests_order(body) or clash(made, ops) is None:
        return made
    return _recomputed(body, ops, lambda one: clash(one, ops) is None)


def _recomputed(body: Graph, ops: OpSet, admits: Callable[[Graph], bool]) -> Graph:
    """Recompute results of clusters one by one; `admits(body)`: whether a change is allowed."""
    for node in body.nodes:
        if node.op == "xla_cluster":
            for tensor in reversed(node.outputs):
                made = _without(body, tensor, ops)
                if made is not None and admits(made):
                    body = made
    return body


def _without(body: Graph, tensor: Tensor, ops: OpSet) -> Graph | None:
    """Return the body in which each reader of a cluster's result computes it.

    None if a reader is no cluster, or if that would be expensive.
    """
    maker = next(node for node in body.nodes if tensor in node.outputs)
    readers = {node for node, _ in consumers(body).get(tensor, ())}
    if tensor in body.outputs or any(node.op != "xla_cluster" for node in readers):
        return None
    new: dict[Node, Node] = {maker: _dropped(maker, tensor)}
    for reader in readers:
        given = _given(maker, tensor, reader)
        copied = _copied(maker, tensor, given, ops)
        if copied is None:
            return None
        new[reader] = _computing(maker, tensor, reader, given, copied)
    nodes = (new.get(node, node) for node in body.nodes)
    return body.replace(nodes=tuple(node for node in nodes if node.outputs))


def _copied(
    maker: Node, tensor: Tensor, given: Mapping[Tensor, Tensor], ops: OpSet
) -> list[Node] | None:
    """Return the nodes, in order, that make `tensor` from `given`; None if that is expensive."""
    graph = _graph(maker)
    producer = {made: node for node in graph.nodes for made in node.outputs}
    wanted = [graph.outputs[maker.outputs.index(tensor)]]
    found: set[Node] = set()
    while wanted:
        inner = wanted.pop()
        node = producer.get(inner)
        if inner in given or node in found:
            continue
        if node is None or (node.op != "constant" and ops.work(node) != "pointwise"):
            return None
        found.add(node)
        wanted.extend(node.inputs)
    if sum(ops.flops(node) for node in found) > SETTINGS.cheap_flops * tensor.size:
        return None
    return [node for node in graph.nodes if node in found]


def _given(maker: Node, tensor: Tensor, reader: Node) -> Mapping[Tensor, Tensor]:
    """Map tensors inside of `maker` to tensors outside that `reader` can start from.

    These are tensors that `reader` reads anyway, and small operands of `maker`.
    """
    graph = _graph(maker)
    inputs = zip(graph.inputs, maker.inputs, strict=True)
    given = {
        inner: outer
        for inner, outer in inputs
        if outer in reader.inputs or outer.nbytes * SETTINGS.negligible <= tensor.nbytes
    }
    for inner, outer in zip(graph.outputs, maker.outputs, strict=True):
        if outer is not tensor and outer in reader.inputs:
            given.setdefault(inner, outer)
    return given


def _computing(
    maker: Node,
    tensor: Tensor,
    reader: Node,
    given: Mapping[Tensor, Tensor],
    copied: Iterable[Node],
) -> Node:
    """Return the cluster `reader` with the nodes `copied`, by which it computes `tensor`."""
    graph = _graph(reader)
    operands = dict(zip(reader.inputs, graph.inputs, strict=True))
    inner_tensor = _graph(maker).outputs[maker.outputs.index(tensor)]
    instead = {operands.pop(tensor): inner_tensor.copy()}
    mirror = {inner_tensor: next(iter(instead.values()))}
    made: list[Node] = []
    for node in copied:
        for inner in node.inputs:
            if inner not in mirror:
                mirror[inner] = operands.setdefault(given[inner], inner.fresh_copy())
        for inner in node.outputs:
            mirror.setdefault(inner, inner.copy())
        inputs, outputs = (tuple(mirror[t] for t in side) for side in (node.inputs, node.outputs))
        made.append(node.replace(inputs=inputs, outputs=outputs))
    nodes = (*made, *(node.substitute(instead) for node in graph.nodes))
    results = tuple(instead.get(one, one) for one in graph.outputs)
    inside = Graph(tuple(operands.values()), nodes, results)
    return reader.replace(inputs=tuple(operands), attrs={"cluster": inside})


def _dropped(maker: Node, tensor: Tensor) -> Node:
    """Return the cluster without one of its results, and without what only this result needed."""
    graph = _graph(maker)
    position = maker.outputs.index(tensor)
    graph = drop_dead(graph.replace(outputs=_but(graph.outputs, position)))
    needed = {*graph.outputs, *(read for node in graph.nodes for read in node.inputs)}
    pairs = zip(graph.inputs, maker.inputs, strict=True)
    operands = {outer: inner for inner, outer in pairs if inner in needed}
    return dataclasses.replace(
        maker,
        inputs=tuple(operands),
        outputs=_but(maker.outputs, position),
        attrs={"cluster": graph.replace(inputs=tuple(operands.values()))},
    )


def _graph(cluster: Node) -> Graph:
    ((_, graph),) = cluster.subgraphs
    return graph


def _but(tensors: Sequence[Tensor], position: int) -> tuple[Tensor, ...]:
    return (*tensors[:position], *tensors[position + 1 :])
