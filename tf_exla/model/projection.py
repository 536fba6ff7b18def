"""Projection of the memory that a graph needs, from its order and the lifetimes of its tensors.

A node needs its live buffers (`lifetimes.py`) and temporary memory: scratch, or the iterations of a
loop. Restore enforces the order of the plan, as far as the peak depends on it, for every node that
touches a tensor of at least `CHAIN_BYTES`; smaller tensors count for the whole run.

- *resident*: bytes that exist before the call: inputs, what handles refer to, constants.
- *working set*: bytes that the call itself allocates.
- *peak* = resident + the largest working set at any moment.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tf_exla.ir.contraction import OP as CONTRACTION
from tf_exla.ir.control_flow import body_of, is_while, passed_on
from tf_exla.ir.graph import ARG_REDUCERS, Graph, Loop, Node, Tensor
from tf_exla.ir.notes import note, noted
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.structure import structure_of
from tf_exla.ir.traverse import walk
from tf_exla.model.cluster_bytes import cluster_bytes
from tf_exla.model.effort import Effort
from tf_exla.model.lifetimes import Lifetimes, lifetimes
from tf_exla.model.scratch import scratch_bytes
from tf_exla.model.sizes import Sizes

RUNTIME_BYTES = 1 << 20
"""Bytes of a call besides tensors: the executor's state, thread-local buffers.

If XLA compiles a part of the program, it needs as many again.
"""

NODE_BYTES = 128
"""Bytes that the executor keeps for each node while a graph runs."""


class Step(NamedTuple):
    """One moment of the plan: bytes of the working set while `node` runs."""

    node: Node
    bytes: int
    temporary: int  # the part in addition to live tensors, which include the node's outputs


@dataclass(frozen=True)
class Projection:
    """The working set at each node of a plan, in bytes.

    `working_set`: the largest. `temporary`: the bytes that each node allocates in addition to live
    buffers. `peak_step`: the position of the node at the peak.
    """

    working_set: int
    nodes: tuple[Node, ...]
    temporary: tuple[int, ...]
    peak_step: int
    lifetimes: Lifetimes

    @cached_property
    def bytes(self) -> tuple[int, ...]:
        """The working set at each node."""
        return tuple(map(add, self.lifetimes.held, self.temporary))

    def step(self, position: int) -> Step:
        """Return one moment of the plan."""
        return Step(self.nodes[position], self.bytes[position], self.temporary[position])

    @property
    def steps(self) -> tuple[Step, ...]:
        """All moments of the plan."""
        return tuple(map(Step, self.nodes, self.bytes, self.temporary))

    @property
    def loose(self) -> int:
        """Bytes of tensors that are not ordered; each step includes them."""
        return self.lifetimes.loose

    @cached_property
    def live(self) -> tuple[tuple[Tensor, int], ...]:
        """The buffers that are alive at the peak, largest first."""
        return self.lifetimes.live(self.peak_step)

    @property
    def peak_node(self) -> Node | None:
        return self.nodes[self.peak_step] if self.nodes else None


@dataclass(frozen=True, slots=True)
class Kind:
    """Memoized results that all loops of one structure share.

    `bodies`: by chunk size, the bodies that were cut. `sizes`: by chunk size, the bytes of one
    iteration. `chosen`: the chunk and the number of concurrent iterations that were chosen, by the
    available bytes and the options that decide it. `split/loops/chunks.py` adds the entries.
    """

    bodies: dict[int, Graph] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    chosen: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def drop_tried(self, extent: int) -> None:
        """Forget the bodies of chunks that were tried and not chosen; `sizes` keeps their bytes."""
        chunks = {chunk for chunk, _ in self.chosen.values()}
        used = chunks | {extent % chunk for chunk in chunks if chunk}
        for size in self.bodies.keys() - used:
            del self.bodies[size]


@dataclass(frozen=True, slots=True)
class Made:
    """Results that the steps of a search share, memoized by the nodes that determine them.

    `loops`: the loops of stages. `apart`: pairs of loops that cannot be merged by an online
    reduction, each with the set of completed tensors that the later one reads.
    """

    loops: dict[Hashable, Loop] = field(default_factory=dict)
    apart: set[Hashable] = field(default_factory=set)


@dataclass
class Projector:
    """Projects graphs for one op set and memoizes the results.

    `effort` counts the nodes that are walked.
    """

    ops: OpSet
    effort: Effort = field(default_factory=Effort)
    _known: WeakKeyDictionary[Graph, dict[object, Projection]] = field(
        default_factory=WeakKeyDictionary
    )

    _lifetimes: WeakKeyDictionary[Graph, dict[object, Lifetimes]] = field(
        default_factory=WeakKeyDictionary
    )
    _author: object = field(default_factory=object)  # of notes at nodes
    _counts: WeakKeyDictionary[Graph, tuple[int, bool]] = field(default_factory=WeakKeyDictionary)
    made: Made = field(default_factory=Made)
    _kinds: dict[Hashable, Kind] = field(default_factory=dict)
    _kind_of: WeakKeyDictionary[Graph, Kind] = field(default_factory=WeakKeyDictionary)

    # By loop: the loop with a chunk and a number of concurrent iterations; None if it is the same
    # loop. Entries are added by `chunks.py`.
    fits: WeakKeyDictionary[Loop, dict[tuple[int, int], Loop | None]] = field(
        default_factory=WeakKeyDictionary
    )

    # By body: the rewrites that were last applied, and the rewritten body; None if unchanged.
    rewritten: WeakKeyDictionary[Graph, tuple[object, Graph | None]] = field(
        default_factory=WeakKeyDictionary
    )

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.ops)

    def kind(self, loop: Loop) -> Kind:
        """Return the results that are shared by all loops of the same structure."""
        known = self._kind_of.get(loop.template)
        if known is None:
            known = self._kinds.setdefault(structure_of(loop), Kind())
            self._kind_of[loop.template] = known
        return known

    def project(self, graph: Graph, sliced: frozenset[Tensor] = frozenset()) -> Projection:
        """Project the working set of one run of `graph`, without resident bytes.

        `sliced`: inputs that the run itself allocates, right before their first use: a loop body's
        chunks.
        """
        known = self._known.setdefault(graph, {})
        key = sliced, self.sizes.given(graph)
        if key not in known:
            known[key] = self._projected(graph, sliced)
        return known[key]

    def _projected(self, graph: Graph, sliced: frozenset[Tensor]) -> Projection:
        return self._with(graph, self.lifetimes(graph, sliced))

    def _with(self, graph: Graph, alive: Lifetimes) -> Projection:
        temporary = tuple(map(self.temporary, graph.nodes))
        needed = list(map(add, alive.held, temporary))
        peak = max(needed, default=0)
        if peak <= alive.loose:
            return Projection(alive.loose, graph.nodes, temporary, 0, alive)
        return Projection(peak, graph.nodes, temporary, needed.index(peak), alive)

    def lifetimes(self, graph: Graph, sliced: frozenset[Tensor] = frozenset()) -> Lifetimes:
        """Return the buffers that are alive during each node; `sliced` as in `project`."""
        known = self._lifetimes.setdefault(graph, {})
        key = sliced, self.sizes.given(graph)
        if key not in known:
            self.effort.walk(len(graph.nodes))
            known[key] = lifetimes(graph, self.ops, self.sizes, sliced)
        return known[key]

    def rechunked(self, graph: Graph, nodes: Sequence[Node]) -> Graph:
        """Return the graph with `nodes`, which differ from its own only in the chunks of loops.

        The lifetimes of `graph` are reused for it.
        """
        made = graph.replace(nodes=tuple(nodes))
        changed = (new for new, old in zip(nodes, graph.nodes, strict=True) if new is not old)
        if not self.sizes.given(graph) and not any(node.is_open for node in changed):
            self.sizes.follow(made, graph)
            self._lifetimes[made] = {(frozenset(), ()): self.lifetimes(graph)}
        return made

    def project_body(self, loop: Loop, body: Graph) -> Projection:
        """Project one iteration of a loop, or its remainder."""
        return self.project(body, loop.sliced(body))

    def working_set(self, graph: Graph) -> int:
        """Return the largest working set of a whole program, with the runtime's own share."""
        return self.project(graph).working_set + self.overhead(graph)

    def overhead(self, graph: Graph) -> int:
        """Return the runtime's own share of a whole program's working set."""
        nodes, compiled = self.count(graph)
        return (2 if compiled else 1) * RUNTIME_BYTES + NODE_BYTES * nodes

    def count(self, graph: Graph) -> tuple[int, bool]:
        """Return the number of nodes, and whether XLA compiles any of them.

        A loop counts with a remainder even if it has none, so that the number does not depend on
        chunks.
        """
        known = self._counts.get(graph)
        if known is None:
            nodes, compiled = len(graph.nodes), False
            for node in graph.nodes:
                compiled |= node.op == "xla_cluster"
                if node.op == CONTRACTION:
                    nodes += self.ops.parts(node) - 1
                for key, sub in node.subgraphs:
                    count, inside = self.count(sub)
                    compiled |= inside
                    if isinstance(node, Loop):
                        count = 2 * count if key == "body" else 0
                    nodes += count
            known = self._counts[graph] = nodes, compiled
        return known

    def temporary(self, node: Node) -> int:
        """Return an upper bound of the bytes that a node allocates in addition to its outputs."""
        if node.op == "constant":
            return 0
        known: int | None = noted(node, "temporary", self._author)
        if known is None:
            known = self._temporary_of(node)
            if not node.is_open:
                note(node, "temporary", self._author, known)
        return known

    def _temporary_of(self, node: Node) -> int:
        if isinstance(node, Loop):
            return self._loop_temporary(node)
        if node.op == "xla_cluster":
            return self._cluster_temporary(node)
        if not node.subgraphs:
            return scratch_bytes(self.sizes, node)
        inner = max(self.inside(node, sub).working_set for _, sub in node.subgraphs)
        if is_while(node) and self.ops.overwrites_variables():
            return inner
        return inner + carried_bytes(node, self.sizes)

    def inside(self, node: Node, sub: Graph) -> Projection:
        """Project one run of a sub-graph of a node."""
        if isinstance(node, Loop):
            return self.project_body(node, sub)
        if not (is_while(node) and sub is body_of(node) and self.ops.overwrites_variables()):
            return self.project(sub)
        alive = lifetimes(sub, self.ops, self.sizes, frozenset(), frozenset(sub.inputs))
        return self._with(sub, alive)

    def _loop_temporary(self, loop: Loop) -> int:
        """Return the bytes of the bodies in flight, or of the remainder, which runs after them."""
        body = loop.parallel * self.body_bytes(loop, loop.body)
        rest = self.body_bytes(loop, loop.remainder) if loop.remainder is not None else 0
        return max(body, rest) + accumulator_copy(loop)

    def body_bytes(self, loop: Loop, body: Graph) -> int:
        """Return the working set of one iteration, or of the remainder."""
        return self.project_body(loop, body).working_set

    def _cluster_temporary(self, node: Node) -> int:
        """Return the bytes of XLA's buffers in addition to the results, with a quarter for safety.

        XLA chooses its own order of nodes, for concurrency. So all results that are neither fused
        nor overwritten may be alive together.
        """
        bytes_ = max(cluster_bytes(self.ops, sub) for _, sub in node.subgraphs)
        return max(0, bytes_ * 5 // 4 - sum(tensor.nbytes for tensor in node.outputs))


def carried_bytes(node: Node, sizes: Sizes) -> int:
    """Return the bytes of the variables that a While changes.

    They are allocated while the initial values are still alive.
    """
    if "body" not in node.attrs:
        return 0
    passed = passed_on(node)
    outputs = enumerate(node.outputs)  # unknown sizes may grow
    return sum(sizes.nbytes(t) for k, t in outputs if k not in passed)


def accumulator_copy(loop: Loop) -> int:
    """Return the bytes to combine two accumulators: their sum is briefly alive along with both.

    Two top-k results are concatenated before the largest elements are taken; argmax and argmin
    need the result of a comparison. Results accumulated in the body need no extra copy.
    """
    pairs = zip(loop.outputs, loop.results, strict=True)
    combined = [
        (tensor.nbytes, result.combine)
        for tensor, result in pairs
        if not result.accumulates_in_body
    ]
    sums = [nbytes for nbytes, combine in combined if combine not in ("concat", *ARG_REDUCERS)]
    merged = [nbytes for nbytes, combine in combined if combine in ARG_REDUCERS]
    return max(sums, default=0) + 6 * sum(merged)


def resident_bytes(graph: Graph) -> int:
    """Return the bytes that exist before a call: inputs, what handles refer to, constants."""
    inputs = sum(tensor.nbytes + tensor.held for tensor in graph.inputs)
    constants = sum(node.output.nbytes for node in walk(graph) if node.op == "constant")
    return inputs + constants


def largest_tensors(graph: Graph, count: int) -> Sequence[tuple[Tensor, Node]]:
    """Return the largest results of a graph's nodes, only one of each name and shape."""
    found: list[tuple[Tensor, Node]] = []
    seen: set[tuple[str, object]] = set()
    for node in graph.nodes:
        for tensor in node.outputs:
            if (key := (tensor.name, tensor.shape)) not in seen:
                seen.add(key)
                found.append((tensor, node))
    return sorted(found, key=lambda item: -item[0].nbytes)[:count]
