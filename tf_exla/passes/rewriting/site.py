"""A graph under rewriting: what patterns ask of it, and the nodes that a replacement makes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from tf_exla.cost import BYTE, FLOP
from tf_exla.graph import Graph, Loop, Node, Tensor, const, consumers, producers
from tf_exla.op_set import OpSet
from tf_exla.passes.clean import node_key

COMMUTATIVE = frozenset({"AddV2", "Mul", "Maximum", "Minimum"})


class CannotMake(Exception):
    """The op set has no such op."""


class Site:
    """One graph, indexed. A proposal's nodes collect in `made` until it is taken or dropped."""

    def __init__(
        self,
        graph: Graph,
        ops: OpSet,
        keys: dict[Node, Hashable | None] | None = None,
        budget: int | None = None,
    ) -> None:
        self.graph = graph
        self.ops = ops
        self.budget = budget  # bytes that results should hold, where that is known
        self.keys = {} if keys is None else keys  # of nodes, shared by the sites of one run
        self.producer = producers(graph)
        self.readers = consumers(graph)
        self.outputs = frozenset(graph.outputs)
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.known: dict[Hashable, Node] = {}
        for node in graph.nodes:
            if node not in self.keys:
                self.keys[node] = node_key(node)
            key = self.keys[node]
            if key is not None:
                self.known.setdefault(key, node)
        self.absorbed: dict[Tensor, bool] = {}  # known to the rewrites of scalings
        self.root: Node | None = None
        self.made: list[Node] = []
        self._fresh: dict[Hashable, Node] = {}
        self._maker: dict[Tensor, Node] = {}

    def begin(self, root: Node) -> None:
        """Start a proposal for `root`: what it may use was made before it."""
        self.root = root
        self.made = []
        self._fresh = {}
        self._maker = {}

    # What a pattern asks.

    def maker(self, tensor: Tensor, *ops: str) -> Node | None:
        """Return the pure node that makes `tensor`, where it is one of `ops`."""
        node = self.producer.get(tensor) or self._maker.get(tensor)
        if node is None or node.stateful or isinstance(node, Loop) or node.op not in ops:
            return None
        return node

    def uses(self, tensor: Tensor) -> int:
        """Return how often a tensor is read, by outputs of the graph too."""
        return len(self.readers.get(tensor, ())) + self.graph.outputs.count(tensor)

    # What a replacement makes.

    def emit(self, op: str, *inputs: Tensor, **attrs: object) -> Tensor:
        """Return the result of `op`; an equal node that exists before the root is taken."""
        made = self.ops.make(op, inputs, attrs, f"{self._name()}/{op}")
        if made is None:
            raise CannotMake(f"{op} cannot be made here")
        return self._add(made)

    def const(self, value: npt.ArrayLike, dtype: str) -> Tensor:
        """Return a constant."""
        array = np.asarray(value, dtype)
        return self._add(const(array, f"{self._name()}/Const", dtype))

    def axes(self, values: Iterable[int]) -> Tensor:
        """Return a list of axes, or a shape."""
        return self.const(np.asarray(list(values), np.int32), "int32")

    def _name(self) -> str:
        assert self.root is not None
        return (self.root.name or self.root.op).removesuffix(f"/{self.root.op}")

    def _add(self, node: Node) -> Tensor:
        assert self.root is not None
        keys = [node_key(node)]
        if node.op in COMMUTATIVE:
            attrs = keys[0][2] if isinstance(keys[0], tuple) else None
            keys.append((node.op, node.inputs[::-1], attrs))
        for key in keys:
            twin = self._fresh.get(key) or self.known.get(key)
            if twin is None:
                continue
            if self._comes_early(twin):
                return twin.output
        self.made.append(node)
        self._fresh[keys[0]] = node
        self._maker[node.output] = node
        return node.output

    def _comes_early(self, twin: Node) -> bool:
        """Return whether a node runs before the root, or can: all that it reads does."""
        assert self.root is not None
        root = self.position[self.root]
        if self.position.get(twin, -1) < root:
            return True
        if twin is self.root:
            return False
        makers = (self.producer.get(tensor) for tensor in twin.inputs)
        return all(maker is None or self.position[maker] < root for maker in makers)

    # What a proposal would change.

    def removed(self, replacements: Mapping[Node, Tensor]) -> list[Node]:
        """Return the nodes that nobody reads once tensors stand for the outputs of others."""
        counts: dict[Tensor, int] = {}

        def count(tensor: Tensor) -> int:
            return counts.setdefault(tensor, self.uses(tensor))

        for node in self.made:
            for tensor in node.inputs:
                counts[tensor] = count(tensor) + 1
        for tensor in replacements.values():
            counts[tensor] = count(tensor) + 1
        gone: list[Node] = []
        work = list(replacements)
        while work:
            node = work.pop()
            gone.append(node)
            for tensor in node.inputs:
                counts[tensor] = count(tensor) - 1
                maker = self.producer.get(tensor)
                if maker is None or maker.stateful or counts[tensor]:
                    continue
                if all(not count(out) for out in maker.outputs):
                    work.append(maker)
        return gone

    def flops(self, nodes: Iterable[Node]) -> int:
        return sum(self.ops.flops(node) for node in nodes if node.op != "Const")

    def bytes(self, nodes: Iterable[Node]) -> int:
        """Return the bytes that nodes read and write."""
        return sum(
            sum(tensor.nbytes for tensor in (*node.inputs, *node.outputs))
            for node in nodes
            if node.op != "Const" and not self.ops.aliases(node)
        )

    def seconds(self, nodes: list[Node]) -> float:
        return self.flops(nodes) * FLOP + self.bytes(nodes) * BYTE


def largest(nodes: Iterable[Node]) -> int:
    """Return the bytes of the largest tensor that nodes make."""
    return max((t.nbytes for node in nodes for t in node.outputs), default=0)
