"""A graph that is being rewritten: queries for patterns, and the nodes that a replacement makes.

A replacement changes the indices of the graph in place, only at the nodes that it touches. So its
time grows with the size of the change, not with that of the graph.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tf_exla.ir.builder import make_node
from tf_exla.ir.clean import exchanged, node_key
from tf_exla.ir.graph import Graph, Loop, Node, Tensor, const
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traits import COMMUTATIVE
from tf_exla.ir.traverse import consumers, producers, topological

Place = tuple[int, ...]
"""Position of a node in the order. Nodes that replace one at `p` get `(*p, 0)`, `(*p, 1)`, ..."""


class RewriteContext:
    """One graph with its indices, and one proposal at a time.

    `root`: the node at which a rewrite makes a proposal. `made`: the nodes of the proposal, until
    it is accepted or dropped. `budget`: bytes that results should not exceed, if there is a choice.
    """

    def __init__(
        self,
        graph: Graph,
        ops: OpSet,
        keys: dict[Node, Hashable | None] | None = None,
        budget: int | None = None,
    ) -> None:
        self.ops = ops
        self.budget = budget
        self.keys = {} if keys is None else keys  # of nodes; contexts of one run share them
        self.inputs = frozenset(graph.inputs)
        self.outputs = Counter(graph.outputs)
        self.producer = producers(graph)
        self.readers = consumers(graph)  # in the order of the nodes
        self.nodes = list(graph.nodes)  # in order
        self.position: dict[Node, Place] = {node: (i,) for i, node in enumerate(graph.nodes)}
        self.reordered: tuple[Place, Place] | None = None  # first and last, by the last replacement
        self.known: dict[Hashable, list[Node]] = {}  # in the order of the nodes
        for node in graph.nodes:
            self._know(node)
        self._graph = graph
        self._changed = False
        self.absorbed: dict[Tensor, bool] = {}  # memoized by the rewrites of scalings
        self.normalizes: dict[tuple[Tensor, Tensor, bool], bool] = {}  # by normalization.py
        self.root: Node | None = None
        self.made: list[Node] = []
        self._fresh: dict[Hashable, Node] = {}
        self._maker: dict[Tensor, Node] = {}

    def begin(self, root: Node) -> None:
        """Start a proposal for `root`; it may read tensors that are computed before `root`."""
        self.root = root
        self.made = []
        self._fresh = {}
        self._maker = {}

    # Queries of patterns.

    def maker(self, tensor: Tensor, *ops: str) -> Node | None:
        """Return the producer of `tensor` if it is pure and one of `ops`."""
        node = self.made_by(tensor)
        if node is None or node.stateful or isinstance(node, Loop) or node.op not in ops:
            return None
        return node

    def made_by(self, tensor: Tensor) -> Node | None:
        """Return the node that computes a tensor, in the graph or in the proposal."""
        return self.producer.get(tensor) or self._maker.get(tensor)

    def uses(self, tensor: Tensor) -> int:
        """Return the number of uses of a tensor, including uses as an output of the graph."""
        return len(self.readers.get(tensor, ())) + self.outputs.get(tensor, 0)

    def readers_after(self, tensor: Tensor, node: Node) -> Iterator[Node]:
        """Yield the readers of a tensor that come after a node, in order."""
        readers = self.readers.get(tensor, [])
        place = self.position[node]
        first = bisect_right(readers, place, key=lambda reading: self.position[reading[0]])
        return (readers[at][0] for at in range(first, len(readers)))

    @property
    def graph(self) -> Graph:
        """The current graph; the given object itself if nothing was replaced."""
        if self._changed:
            self._graph = self._graph.replace(nodes=tuple(self.nodes))
            self._changed = False
        return self._graph

    # Nodes of a replacement.

    def emit(self, op: str, *inputs: Tensor, **attrs: object) -> Tensor:
        """Return the result of `op`.

        If an equal node runs before the root, or can, no node is added. Raises `Refusal` if the op
        set has no such op.
        """
        return self._add(make_node(self.ops, op, inputs, attrs, f"{self._name()}/{op}"))

    def const(self, value: npt.ArrayLike, dtype: str) -> Tensor:
        """Return a constant."""
        array = np.asarray(value, dtype)
        return self._add(const(array, f"{self._name()}/constant", dtype))

    def axes(self, values: Iterable[int]) -> Tensor:
        """Return a constant that is a list of axes, or a shape."""
        return self.const(np.asarray(list(values), np.int32), "int32")

    def _name(self) -> str:
        assert self.root is not None
        return (self.root.name or self.root.op).removesuffix(f"/{self.root.op}")

    def _add(self, node: Node) -> Tensor:
        assert self.root is not None
        keys = [node_key(node)]
        if node.op in COMMUTATIVE:
            keys.append(exchanged(keys[0]))
        for key in keys:
            twin = self._fresh.get(key) or next(iter(self.known.get(key, ())), None)
            if twin is None:
                continue
            if self._comes_early(twin):
                return twin.output
        self.made.append(node)
        self._fresh[keys[0]] = node
        self._maker[node.output] = node
        return node.output

    def _comes_early(self, twin: Node) -> bool:
        """Return whether a node runs before the root, or all producers of its operands do."""
        assert self.root is not None
        root = self.position[self.root]
        if twin not in self.position or self.position[twin] < root:
            return True
        if twin is self.root:
            return False
        makers = (self.producer.get(tensor) for tensor in twin.inputs)
        return all(maker is None or self.position[maker] < root for maker in makers)

    # Effects of a proposal.

    def removed(self, replacements: Mapping[Node, Tensor]) -> list[Node]:
        """Return the replaced nodes and those that become dead with them."""
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

    # A replacement.

    def replace(self, replacements: Mapping[Node, Tensor], gone: Iterable[Node]) -> list[Node]:
        """Replace the outputs of nodes by tensors, and remove `gone`; return the new nodes.

        The proposal's nodes take the place of the root. If that is before a producer of one of
        their operands, or after a reader of another replaced node, the nodes in between are
        reordered.
        """
        root = self.root
        assert root is not None
        place = self.position[root]
        stands = {node.outputs[0]: tensor for node, tensor in replacements.items()}
        for node in gone:
            self._remove(node)
        new: list[Node] = []
        for count, made in enumerate(self.made):
            node = made.replace(source=root.source)
            self._insert(node, (*place, count))
            new.append(node)
        old = {reader: None for tensor in stands for reader, _ in self.readers.get(tensor, ())}
        fresh = set(new)
        for reader in old:
            if reader in fresh:
                continue
            node, at = reader.substitute(stands), self.position[reader]
            self._remove(reader)
            self._insert(node, at)
            new.append(node)
        if any(tensor in stands for tensor in self.outputs):
            outputs = tuple(stands.get(tensor, tensor) for tensor in self._graph.outputs)
            self._graph = self._graph.replace(outputs=outputs)
            self.outputs = Counter(outputs)
        self.absorbed = {}
        self._changed = True
        self._put_in_order(new)
        return new

    def _insert(self, node: Node, place: Place) -> None:
        self.position[node] = place
        insort(self.nodes, node, key=self.position.__getitem__)
        for position, tensor in enumerate(node.inputs):
            insort(self.readers.setdefault(tensor, []), (node, position), key=self._reading_place)
        self.producer.update(dict.fromkeys(node.outputs, node))
        self._know(node)

    def _remove(self, node: Node) -> None:
        for position, tensor in enumerate(node.inputs):
            readers = self.readers[tensor]
            reading = (node, position)
            del readers[bisect_left(readers, self._reading_place(reading), key=self._reading_place)]
        for tensor in node.outputs:
            if self.producer.get(tensor) is node:
                del self.producer[tensor]
        key = self.keys[node]
        if key is not None:
            self.known[key].remove(node)
        del self.nodes[bisect_left(self.nodes, self.position[node], key=self.position.__getitem__)]
        del self.position[node]

    def _know(self, node: Node) -> None:
        """Index a node by the key that nodes computing the same share."""
        if node not in self.keys:
            self.keys[node] = node_key(node)
        key = self.keys[node]
        if key is not None:
            insort(self.known.setdefault(key, []), node, key=self.position.__getitem__)

    def _reading_place(self, reading: tuple[Node, int]) -> tuple[Place, int]:
        return self.position[reading[0]], reading[1]

    def _put_in_order(self, new: Iterable[Node]) -> None:
        """Restore topological order where new nodes read results of later nodes.

        Only nodes between the first such reader and the last such producer move.
        """
        place = self.position.__getitem__
        makers = ((self.producer.get(tensor), node) for node in new for tensor in node.inputs)
        late = [
            (place(node), place(maker))
            for maker, node in makers
            if maker is not None and place(maker) > place(node)
        ]
        self.reordered = None
        if not late:
            return
        first, last = min(reader for reader, _ in late), max(maker for _, maker in late)
        start = bisect_left(self.nodes, first, key=place)
        end = bisect_right(self.nodes, last, key=place)
        places = list(map(place, self.nodes[start:end]))
        between = topological(self.nodes[start:end], self.position.__getitem__)
        self.nodes[start:end] = between
        self.position.update(zip(between, places, strict=True))
        for tensor in {tensor for node in between for tensor in node.inputs}:
            self.readers[tensor].sort(key=self._reading_place)
        for key in {self.keys[node] for node in between} - {None}:
            self.known[key].sort(key=place)
        self.reordered = first, last

    def flops(self, nodes: Iterable[Node]) -> int:
        return sum(self.ops.flops(node) for node in nodes if node.op != "constant")

    def bytes(self, nodes: Iterable[Node]) -> int:
        """Return the bytes that nodes read and write."""
        return sum(
            sum(tensor.nbytes for tensor in (*node.inputs, *node.outputs))
            for node in nodes
            if node.op != "constant" and not self.ops.aliases(node)
        )

    def seconds(self, nodes: list[Node]) -> float:
        rates = self.ops.rates()
        return self.flops(nodes) * rates.flop + self.bytes(nodes) * rates.byte


def largest(nodes: Iterable[Node]) -> int:
    """Return the bytes of the largest tensor that nodes make."""
    return max((t.nbytes for node in nodes for t in node.outputs), default=0)
