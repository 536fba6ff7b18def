"""Bytes behind lists of tensors: what a loop keeps of each iteration.

The gradient of a While reads what its iterations computed, the last first: TensorFlow keeps these
tensors in lists, and so it keeps what a loop writes to an array. A list is a handle; here is what
it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from tf_exla.graph import Graph, Node, Tensor
from tf_exla.op_set import OpSet

ITEM_BYTES = 192
"""What a list keeps for each tensor beside its elements."""

UNKNOWN_ITERATIONS = 1000
"""Iterations counted for a loop whose number is not known; `unbounded` finds large ones."""

SMALL_BYTES = 4096
"""What a loop of unknown length may keep of an iteration without being refused."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that a list holds, of which its node added `growth`; `most`: tensors it may hold."""

    growth: int = 0
    total: int = 0
    most: int | None = None


_EMPTY = Held()


@dataclass
class Lists:
    """What the lists of graphs hold; lists among a graph's inputs count as empty."""

    ops: OpSet
    _known: WeakKeyDictionary[Graph, dict[Tensor, Held]] = field(default_factory=WeakKeyDictionary)
    _bounds: WeakKeyDictionary[Graph, dict[Tensor, int]] = field(default_factory=WeakKeyDictionary)

    def held(self, graph: Graph) -> dict[Tensor, Held]:
        """Return what the lists that nodes of `graph` make hold."""
        found = self._known.get(graph)
        if found is None:
            found = self._known[graph] = {}
            bounds = self._bounds[graph] = {}
            for node in graph.nodes:
                if any(is_list(tensor) for tensor in node.outputs):
                    made = self._made(node, found, bounds)
                    found.update((tensor, one) for tensor, one in made if is_list(tensor))
                if "body" in node.attrs:
                    times = self.ops.iterations(node, bounds)
                    bounds.update({} if times is None else self.ops.counted(node, times))
        return found

    def unbounded(self, graph: Graph) -> tuple[Node, int] | None:
        """Return a While that keeps much of each iteration, and of unknown many; and how much."""
        held = self.held(graph)
        for node in graph.nodes:
            for _, sub in node.subgraphs:
                if (found := self.unbounded(sub)) is not None:
                    return found
            if "body" not in node.attrs:
                continue
            if self.ops.iterations(node, self._bounds[graph]) is not None:
                continue
            kept = sum(
                size
                for k, size in self._kept(node)
                if held.get(node.inputs[k], _EMPTY).most is None
            )
            if kept > SMALL_BYTES:
                return node, kept
        return None

    def _made(
        self, node: Node, known: dict[Tensor, Held], bounds: dict[Tensor, int]
    ) -> Iterator[tuple[Tensor, Held]]:
        if "body" in node.attrs:
            kept = dict(self._kept(node))
            count = self.ops.iterations(node, bounds)
            for k, tensor in enumerate(node.outputs):
                old = known.get(node.inputs[k], _EMPTY)
                times = [one for one in (count, old.most) if one is not None]
                growth = kept.get(k, 0) * min(times, default=UNKNOWN_ITERATIONS)
                yield tensor, Held(growth, old.total + growth, old.most)
            return
        before = sum(known.get(tensor, _EMPTY).total for tensor in node.inputs if is_list(tensor))
        if node.subgraphs:
            for k, tensor in enumerate(node.outputs):
                inner = (self.held(sub).get(sub.outputs[k], _EMPTY) for _, sub in node.subgraphs)
                growth = max(one.total for one in inner)
                yield tensor, Held(growth, before + growth)
            return
        operands, most = self.ops.keeps(node)
        growth = 0
        for position in operands:
            item = node.inputs[position]
            growth += item.nbytes + known.get(item, _EMPTY).total + ITEM_BYTES
        first = known.get(node.inputs[0], _EMPTY) if node.inputs else _EMPTY
        yield (
            node.outputs[0],
            Held(growth, first.total + growth, first.most if most is None else most),
        )

    def _kept(self, node: Node) -> Iterator[tuple[int, int]]:
        """Yield the variables of a While that are lists, and what an iteration adds to each."""
        body = node.attrs["body"]
        assert isinstance(body, Graph)
        held = self.held(body)
        for k, tensor in enumerate(body.outputs[: len(body.inputs)]):
            if is_list(tensor) and held.get(tensor, _EMPTY).total:
                yield k, held[tensor].total


def is_list(tensor: Tensor) -> bool:
    return tensor.dtype == "variant"
