"""Rebuild loops with other results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tf_exla.ir.graph import Graph, Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.split.regions.def_use import DefUse

Operand = tuple[Tensor, SplitAxis | None]


def postponed(
    index: DefUse, loop: Loop, positions: Sequence[int], following: Sequence[Loop]
) -> list[Loop] | None:
    """Move results of `loop` (`positions`) into one of the `following` loops.

    Return the following loops, one of them changed. None if all of them depend on these results.
    """
    reached = {loop.outputs[k] for k in positions}
    before = 0
    while len(reached) > before:  # all results of a loop depend on all its operands
        before = len(reached)
        for node in (*index.graph.nodes, *following):
            if not reached.isdisjoint(node.inputs):
                reached.update(node.outputs)
    hosts = (k for k, one in enumerate(following) if reached.isdisjoint(one.inputs))
    k = next(hosts, None)
    if k is None:
        return None
    host = _with_results(following[k], loop, positions)
    return [*following[:k], host, *following[k + 1 :]]


def _with_results(host: Loop, loop: Loop, positions: Sequence[int]) -> Loop:
    """Return `host` with some results of another loop added."""
    draft = LoopDraft(host, loop)
    renamed = {
        stand_in: draft.operands.setdefault((tensor, slot), stand_in)
        for tensor, slot, stand_in in zip(
            loop.inputs, loop.slots, loop.template.inputs, strict=True
        )
    }
    nodes = [node.substitute(renamed) for node in loop.template.nodes]
    for k in positions:
        draft.add(loop.template.outputs[k], loop.outputs[k], loop.results[k])
    return draft.built({**makers(nodes), **draft.making})


class LoopDraft:
    """A loop that is rebuilt with results of another one.

    `inner`: the body's tensor for each of `outputs`. `operands`: the body's input for each operand
    of the loop and its slot. `making`: the producer of each tensor in the body.
    """

    def __init__(self, loop: Loop, other: Loop) -> None:
        count, stand_ins = len(loop.inputs), loop.template.inputs
        keys = zip(loop.inputs, loop.slots, strict=True)
        self.loop = loop
        self.operands: dict[Operand, Tensor] = dict(zip(keys, stand_ins[:count], strict=True))
        self.folds = dict(zip(loop.folds, stand_ins[count:], strict=True))
        self.making = makers(loop.template.nodes)
        self.slots = {**other.split_axes, **loop.split_axes}
        self.min_chunk = max(loop.min_chunk, other.min_chunk)
        self.inner = list(loop.template.outputs)
        self.outputs = list(loop.outputs)
        self.results = list(loop.results)

    def add(self, inner: Tensor, output: Tensor, result: LoopResult) -> None:
        """Add a result."""
        self.inner.append(inner)
        self.outputs.append(output)
        self.results.append(result)

    def built(self, making: Mapping[Tensor, Node]) -> Loop:
        """Return the loop, its body built from nodes of `making`."""
        nodes = _needed(self.inner, making)
        used = {tensor for node in nodes for tensor in (*node.inputs, *node.outputs)}
        used.update(self.inner)
        read = {key: stand_in for key, stand_in in self.operands.items() if stand_in in used}
        carried = {tensor: slot for tensor, slot in self.slots.items() if tensor in used}
        results = enumerate(self.results)
        folds = [self.folds[k] for k, result in results if result.accumulates_in_body]
        template = Graph((*read.values(), *folds), nodes, tuple(self.inner))
        return self.loop.replace(
            inputs=tuple(tensor for tensor, _ in read),
            slots=tuple(slot for _, slot in read),
            outputs=tuple(self.outputs),
            results=tuple(self.results),
            template=template,
            split_axes=MappingProxyType(carried),
            body=template,
            min_chunk=self.min_chunk,
        )


def _needed(outputs: Sequence[Tensor], making: Mapping[Tensor, Node]) -> tuple[Node, ...]:
    """Return the nodes that `outputs` depend on, in topological order."""
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
    """Return the producer of each result of the nodes."""
    return {tensor: node for node in nodes for tensor in node.outputs}
