"""The parts of a sharded program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.traverse import producers


@dataclass(frozen=True, eq=False)
class LocalPart:
    """Nodes that run on the driver: a separate program, between sharded loops."""

    graph: Graph

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.graph.outputs


@dataclass(frozen=True, eq=False)
class ShardedPart:
    """A loop whose iterations run on devices."""

    loop: Loop

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.loop.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.loop.outputs


Part = LocalPart | ShardedPart


def parts_of(graph: Graph) -> tuple[Part, ...]:
    """Divide a graph at its loops; return local and sharded parts in order.

    Other nodes before a loop run after it unless it reads their results. Parts read inputs of the
    program and outputs of earlier parts. Constants, and the small integer tensors from which sizes
    are computed, are copied into each local part that reads them.
    """
    return _Division(graph).run()


class _Division:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made_by = producers(graph)
        self.parts: list[Loop | list[Node]] = []
        self.waiting: list[Node] = []

    def run(self) -> tuple[Part, ...]:
        for node in self.graph.nodes:
            if not isinstance(node, Loop):
                if not _is_remade(node):
                    self.waiting.append(node)
                continue
            if self._waits(node):
                self._close(node.inputs)
            self.parts.append(node)
        if self.waiting or any(map(self._remade, self.graph.outputs)):
            self._close(self.graph.outputs)
        return tuple(self._part(at, part) for at, part in enumerate(self.parts))

    def _remade(self, tensor: Tensor) -> Node | None:
        node = self.made_by.get(tensor)
        return node if node is not None and _is_remade(node) else None

    def _waits(self, loop: Loop) -> bool:
        made = {tensor for node in self.waiting for tensor in node.outputs}
        return any(tensor in made or self._remade(tensor) for tensor in loop.inputs)

    def _close(self, read: Iterable[Tensor]) -> None:
        """End a local part; `read`: tensors that it must return, including constants."""
        wanted = [*(t for node in self.waiting for t in node.inputs), *read]
        nodes = set(self.waiting)
        while wanted:
            node = self._remade(wanted.pop())
            if node is not None and node not in nodes:
                nodes.add(node)
                wanted += node.inputs
        self.parts.append([node for node in self.graph.nodes if node in nodes])
        self.waiting = []

    def _part(self, at: int, part: Loop | list[Node]) -> Part:
        if isinstance(part, Loop):
            return ShardedPart(part)
        made = {tensor: None for node in part for tensor in node.outputs}
        read = dict.fromkeys(tensor for node in part for tensor in node.inputs)
        later = set(self.graph.outputs)
        for other in self.parts[at + 1 :]:
            nodes = [other] if isinstance(other, Loop) else other
            # A part does not read constants of another part of which it has a copy itself.
            own = {tensor for node in nodes for tensor in node.outputs}
            later.update(t for node in nodes for t in node.inputs if t not in own)
        inputs = tuple(tensor for tensor in read if tensor not in made)
        outputs = tuple(tensor for tensor in made if tensor in later)
        return LocalPart(Graph(inputs, tuple(part), outputs))


def _is_remade(node: Node) -> bool:
    """Return whether a node is copied into each part that reads it.

    A part needs such static values to infer shapes, and does not know values of other parts.
    """
    if node.op == "constant":
        return True
    return (
        not node.stateful
        and not node.subgraphs
        and all(t.dtype in _INTEGERS and t.is_static and t.size <= _FEW for t in node.outputs)
        and all(t.dtype in _INTEGERS and t.is_static and t.size <= _FEW for t in node.inputs)
    )


_INTEGERS = frozenset({"bool", "int32", "int64"})
_FEW = 64
"""The largest number of elements of a shape, or of an operand from which a shape is computed."""
