"""Loops made again with other results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tf_exla.ir.graph import Graph, Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.split.def_use import DefUse

Operand = tuple[Tensor, SplitAxis | None]


def postponed(
    index: DefUse, loop: Loop, positions: Sequence[int], following: Sequence[Loop]
) -> list[Loop] | None:
    """Let one of the loops that follow make some results of a loop; None where each needs them."""
    reached = {loop.outputs[k] for k in positions}
    before = 0
    while len(reached) > before:  # a loop waits for all that it reads, whatever it needs it for
        before = len(reached)
        for node in (*index.graph.nodes, *following):
            if not reached.isdisjoint(node.inputs):
                reached.update(node.outputs)
    hosts = (k for k, one in enumerate(following) if reached.isdisjoint(one.inputs))
    k = next(hosts, None)
    if k is None:
        return None
    host = _with_results(index.ops, following[k], loop, positions)
    return [*following[:k], host, *following[k + 1 :]]


def _with_results(ops: OpSet, host: Loop, loop: Loop, positions: Sequence[int]) -> Loop:
    """Return `host`, which makes results of another loop as well."""
    keys = zip(host.inputs, host.slots, strict=True)
    operands = dict(zip(keys, host.template.inputs, strict=True))
    renamed = {
        stand_in: operands.setdefault((tensor, slot), stand_in)
        for tensor, slot, stand_in in zip(
            loop.inputs, loop.slots, loop.template.inputs, strict=True
        )
    }
    nodes = [node.substitute(renamed) for node in loop.template.nodes]
    return remade(
        host,
        operands=operands,
        making={**makers(nodes), **makers(host.template.nodes)},
        inner=(*host.template.outputs, *(loop.template.outputs[k] for k in positions)),
        outputs=(*host.outputs, *(loop.outputs[k] for k in positions)),
        results=(*host.results, *(loop.results[k] for k in positions)),
        slots={**loop.split_axes, **host.split_axes},
        least=max(loop.min_chunk, host.min_chunk),
    )


def remade(
    loop: Loop,
    *,
    operands: Mapping[Operand, Tensor],
    making: Mapping[Tensor, Node],
    inner: Sequence[Tensor],
    outputs: Sequence[Tensor],
    results: Sequence[LoopResult],
    slots: Mapping[Tensor, SplitAxis],
    least: int,
    folds: Sequence[Tensor] = (),
) -> Loop:
    """Make a loop again with other results; `inner`: what its body makes of them."""
    nodes = _needed(inner, making)
    used = {tensor for node in nodes for tensor in (*node.inputs, *node.outputs)}
    used.update(inner)
    read = {key: stand_in for key, stand_in in operands.items() if stand_in in used}
    carried = {tensor: slot for tensor, slot in slots.items() if tensor in used}
    template = Graph((*read.values(), *folds), nodes, tuple(inner))
    return dataclasses.replace(
        loop,
        inputs=tuple(tensor for tensor, _ in read),
        slots=tuple(slot for _, slot in read),
        outputs=tuple(outputs),
        results=tuple(results),
        template=template,
        split_axes=MappingProxyType(carried),
        body=template,
        min_chunk=least,
    )


def _needed(outputs: Sequence[Tensor], making: Mapping[Tensor, Node]) -> tuple[Node, ...]:
    """Return the nodes that `outputs` need, each after those that it reads."""
    nodes: dict[Node, None] = {}
    work = [(making[one], False) for one in reversed(outputs) if one in making]
    while work:
        node, ready = work.pop()
        if ready:
            nodes[node] = None
        elif node not in nodes:
            work.append((node, True))
            work += [(making[one], False) for one in reversed(node.inputs) if one in making]
    return tuple(nodes)


def makers(nodes: Sequence[Node]) -> dict[Tensor, Node]:
    """Map every tensor that the nodes make to its node."""
    return {tensor: node for node in nodes for tensor in node.outputs}
