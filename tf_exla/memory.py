"""Projection of the memory that a graph needs, from its order and the lifetimes of its tensors.

The walk follows the plan: a node's outputs and scratch are allocated before its inputs are freed,
and an input is freed after its last consumer. Restore enforces this order for every node that
touches a tensor of at least `CHAIN_BYTES`; smaller tensors are not ordered and count for the
whole run.

- *resident*: bytes that exist before the call: inputs, what handles hold, constants.
- *working set*: bytes that the call itself allocates.
- *peak* = resident + the largest working set at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from tf_exla.aliases import is_alias, readers_through, roots
from tf_exla.fusion import in_registers, is_one_loop
from tf_exla.graph import PAIRED, Graph, Loop, Node, Tensor, consumers, walk
from tf_exla.lists import is_list
from tf_exla.op_set import OpSet
from tf_exla.sizes import Sizes
from tf_exla.structure import structure_of

CHAIN_BYTES = 4096
"""Nodes that touch a tensor of at least so many bytes are run in the order of the plan."""

RUNTIME_BYTES = 1 << 20
"""What a call allocates beside tensors: the executor's state, thread-local buffers; XLA as much."""

NODE_BYTES = 128
"""What the executor keeps for each node while a graph runs."""


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of the plan: bytes of the working set while `node` runs."""

    node: Node
    bytes: int
    temporary: int  # the part that the node needs beside live tensors and its outputs


@dataclass(frozen=True)
class Projection:
    """The working set over the plan; `live`: the buffers at the largest moment, largest first."""

    working_set: int
    steps: tuple[Step, ...]
    peak_step: int
    live: tuple[tuple[Tensor, int], ...]
    loose: int = 0  # of tensors that are not ordered, in each step

    @property
    def peak_node(self) -> Node | None:
        return self.steps[self.peak_step].node if self.steps else None


@dataclass(slots=True)
class _Buffer:
    """Memory shared by one or more tensors; `pending`: operands that will still read it."""

    tensor: Tensor
    bytes: int
    owned: bool
    pending: int = 0
    parent: _Buffer | None = None  # which this one may be a part of: it lives as long


@dataclass
class Projector:
    """Projects graphs for one op set, and remembers what it projected.

    `tick` is called for each step of a search.
    """

    ops: OpSet
    tick: Callable[[], None] = lambda: None
    _known: WeakKeyDictionary[Graph, dict[object, Projection]] = field(
        default_factory=WeakKeyDictionary
    )

    _counts: WeakKeyDictionary[Graph, tuple[int, bool]] = field(default_factory=WeakKeyDictionary)
    _needs: dict[Hashable, dict[int, int]] = field(default_factory=dict)
    _needs_of: WeakKeyDictionary[Graph, dict[int, int]] = field(default_factory=WeakKeyDictionary)
    _bodies: WeakKeyDictionary[Graph, dict[int, Graph]] = field(default_factory=WeakKeyDictionary)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.ops)

    def bodies(self, loop: Loop) -> dict[int, Graph]:
        """Return the bodies that were cut from a loop's template, by size: whoever cuts adds them.

        The same body is projected once.
        """
        return self._bodies.setdefault(loop.template, {})

    def sizes_known(self, loop: Loop) -> dict[int, int]:
        """Return the bytes of one iteration by the size of its chunk, as far as they are known.

        They are those of all loops of one structure: whoever projects a body adds it.
        """
        known = self._needs_of.get(loop.template)
        if known is None:
            known = self._needs_of[loop.template] = self._needs.setdefault(structure_of(loop), {})
        return known

    def project(self, graph: Graph, sliced: frozenset[Tensor] = frozenset()) -> Projection:
        """Project the working set of one run of `graph`, without resident bytes.

        `sliced`: the inputs that the run itself allocates, right before their first use: a loop
        body's chunks.
        """
        known = self._known.setdefault(graph, {})
        key = sliced, self.sizes.given(graph)
        if key not in known:
            known[key] = _Walk(graph, self, sliced).run()
        return known[key]

    def project_body(self, loop: Loop, body: Graph) -> Projection:
        """Project one iteration of a loop, or its remainder."""
        return self.project(body, loop.sliced(body))

    def working_set(self, graph: Graph) -> int:
        """Return the largest working set of a whole program, with the runtime's own share."""
        return self.project(graph).working_set + self.overhead(graph)

    def overhead(self, graph: Graph) -> int:
        """Return the runtime's own share of a whole program's working set."""
        nodes, compiled = self._count(graph)
        return (2 if compiled else 1) * RUNTIME_BYTES + NODE_BYTES * nodes

    def _count(self, graph: Graph) -> tuple[int, bool]:
        """Count nodes, and tell whether XLA compiles any.

        A loop counts with a remainder even where its chunk leaves none.
        """
        known = self._counts.get(graph)
        if known is None:
            nodes, compiled = len(graph.nodes), False
            for node in graph.nodes:
                compiled |= node.op == "Compiled"
                for key, sub in node.subgraphs:
                    count, inside = self._count(sub)
                    compiled |= inside
                    if isinstance(node, Loop):
                        count = 2 * count if key == "body" else 0
                    nodes += count
            known = self._counts[graph] = nodes, compiled
        return known

    def temporary(self, node: Node) -> int:
        """Return an upper bound of the bytes a node allocates beside its outputs."""
        if isinstance(node, Loop):
            return self._loop_temporary(node)
        if node.op == "Compiled":
            return self._cluster_temporary(node)
        if node.subgraphs:
            inner = max(self.project(sub).working_set for _, sub in node.subgraphs)
            return inner + carried_bytes(node, self.sizes)
        return self.sizes.scratch(node)

    def _loop_temporary(self, loop: Loop) -> int:
        """Iterations in flight hold a body each; the remainder runs after them."""
        body = loop.parallel * self.body_bytes(loop, loop.body)
        rest = self.body_bytes(loop, loop.remainder) if loop.remainder is not None else 0
        return max(body, rest) + accumulator_copy(loop)

    def body_bytes(self, loop: Loop, body: Graph) -> int:
        """Return the working set of one iteration, or of the remainder."""
        return self.project_body(loop, body).working_set

    def _cluster_temporary(self, node: Node) -> int:
        """XLA's buffers beside the results, a quarter more allowed for.

        The executor's order says nothing: XLA orders nodes for concurrency, so that whatever is not
        fused or overwritten may be alive together.
        """
        bytes_ = max(_cluster_bytes(self.ops, sub) for _, sub in node.subgraphs)
        return max(0, bytes_ * 5 // 4 - sum(tensor.nbytes for tensor in node.outputs))


_BY_ROWS = frozenset({"LogSoftmax", "Softmax"})
"""Overwrite their operand, but are no single pass over it."""
_TWICE = _BY_ROWS | {"Softplus"}
"""Read exponentials more than once, which have a buffer beside the result."""


def _cluster_bytes(ops: OpSet, graph: Graph) -> int:
    """Return the bytes of all results of a cluster that XLA neither fuses nor overwrites.

    A pointwise result that one pointwise node reads is fused into it, a simple one that several
    read into each. Where XLA fuses in place, a pointwise node overwrites an operand that nobody
    else reads. Aliases are seen through, but each result has a buffer. What Eigen takes for a
    broadcast, XLA's loops do not; products are Eigen's there, too.
    """
    root = roots(ops, graph)
    readers = readers_through(ops, graph)
    outputs = frozenset(root.get(tensor, tensor) for tensor in graph.outputs)
    pointwise = {node: is_one_loop(ops, node) for node in graph.nodes}
    hidden = in_registers(ops, graph)
    in_place = ops.fuses_in_place()
    own: set[Tensor] = set()  # buffers that one node reads, at most: it may overwrite them
    made = {tensor for node in graph.nodes if node.op != "Const" for tensor in node.outputs}
    total = sum(tensor.nbytes for tensor in graph.outputs)
    total -= sum(tensor.nbytes for tensor in outputs if tensor in made)  # counted below
    for node in graph.nodes:
        if node.op == "Const" or is_alias(ops, node):
            continue
        if not pointwise[node] or node.op in _BY_ROWS:
            total += ops.scratch(node, compiled=True)
        if node.op in _TWICE:
            total += node.output.nbytes  # the exponentials, which XLA reads twice
        operands = [root.get(tensor, tensor) for tensor in node.inputs]
        for tensor in node.outputs:
            read = readers.get(tensor, ())
            once = len(read) <= 1 and tensor not in outputs
            if tensor in hidden:
                # What the fused nodes may overwrite passes to the last of them.
                own.update([tensor] if once and _overwrites(own, operands, tensor) else [])
                continue
            reused = in_place and pointwise[node] and _overwrites(own, operands, tensor)
            total += 0 if reused else tensor.nbytes
            if once:
                own.add(tensor)
    return total


def _overwrites(own: set[Tensor], operands: Sequence[Tensor], result: Tensor) -> bool:
    return any(operand in own and operand.nbytes == result.nbytes for operand in operands)


def carried_bytes(node: Node, sizes: Sizes) -> int:
    """Return the bytes of a While's variables that change: they live beside the first values."""
    if "body" not in node.attrs:
        return 0
    passed = passed_on(node)
    outputs = enumerate(node.outputs)  # unknown sizes may grow
    return sum(sizes.nbytes(t) for k, t in outputs if k not in passed)


def passed_on(node: Node) -> frozenset[int]:
    """Return the variables of a While that no iteration changes: they keep their buffers."""
    body = node.attrs.get("body")
    if not isinstance(body, Graph):
        return frozenset()
    pairs = zip(body.inputs, body.outputs[: len(body.inputs)], strict=True)
    return frozenset(k for k, (before, after) in enumerate(pairs) if before is after)


def accumulator_copy(loop: Loop) -> int:
    """The sum of two accumulators may live beside both for a moment.

    To merge two top_k, both are joined, and the largest of them taken; argmax and argmin compare.
    What a body folds, it makes itself.
    """
    pairs = zip(loop.outputs, loop.results, strict=True)
    combined = [(tensor.nbytes, result.combine) for tensor, result in pairs if not result.fold]
    sums = [nbytes for nbytes, combine in combined if combine not in ("concat", *PAIRED)]
    merged = [nbytes for nbytes, combine in combined if combine in PAIRED]
    return max(sums, default=0) + 6 * sum(merged)


class _Walk:
    """One projection: the state of the walk over the nodes."""

    def __init__(self, graph: Graph, projector: Projector, sliced: frozenset[Tensor]) -> None:
        self.graph = graph
        self.sliced = sliced
        self.projector = projector
        self.ops = projector.ops
        self.uses = {tensor: len(readers) for tensor, readers in consumers(graph).items()}
        for tensor in graph.outputs:
            self.uses[tensor] = self.uses.get(tensor, 0) + 1
        self.sizes = projector.sizes
        self.lists = self.sizes.lists(graph)
        self.buffers: dict[Tensor, _Buffer] = {}
        self.alive: dict[int, _Buffer] = {}
        self.bytes = 0

    def run(self) -> Projection:
        for tensor in self.graph.inputs:
            if tensor not in self.sliced:
                self.buffers[tensor] = _Buffer(tensor, 0, owned=False)
        made = (*self._made(), *self.sliced)
        loose = sum(size for t in made if (size := self.sizes.nbytes(t)) < CHAIN_BYTES)
        steps: list[Step] = []
        peak = loose
        peak_step = 0
        live: tuple[_Buffer, ...] = ()
        for position, node in enumerate(self.graph.nodes):
            temporary = self._start(node)
            now = loose + self.bytes + temporary
            steps.append(Step(node, now, temporary))
            if now > peak:
                peak, peak_step, live = now, position, tuple(self.alive.values())
            self._finish(node)
        ranked = sorted(((b.tensor, b.bytes) for b in live), key=lambda item: -item[1])
        return Projection(peak, tuple(steps), peak_step, tuple(ranked), loose)

    def _made(self) -> Iterator[Tensor]:
        for node in self.graph.nodes:
            if node.op != "Const" and not self.ops.aliases(node):
                yield from node.outputs

    def _start(self, node: Node) -> int:
        """Allocate the outputs; return the temporary bytes."""
        if node.op == "Const":
            self.buffers[node.output] = _Buffer(node.output, 0, owned=False)
            return 0
        for tensor in node.inputs:
            if tensor not in self.buffers:
                self._allocate(tensor)
        shared = {k: self.buffers[node.inputs[k]] for k in passed_on(node)}
        if (first := self._shared_buffer(node)) is not None:
            shared[0] = first
        if self.ops.joint(node) and not all(tensor.is_static for tensor in node.outputs):
            together = self._hold(node.outputs[0], self.sizes.nbytes(node.inputs[0]))
            together.pending = 0
            shared = dict.fromkeys(range(len(node.outputs)), together)
        for position, tensor in enumerate(node.outputs):
            if position in shared:
                shared[position].pending += self.uses.get(tensor, 0)
                self.buffers[tensor] = shared[position]
            elif tensor in self.lists:
                self._extend(node, position, tensor)
            else:
                self._allocate(tensor)
        if self.ops.may_alias(node) and node.inputs:
            self._hold_parent(node)
        return self.projector.temporary(node)

    def _hold_parent(self, node: Node) -> None:
        """A view or a copy: count the result, and keep alive what it may be a view of."""
        parent = self.buffers[node.inputs[0]]
        for tensor in node.outputs:
            buffer = self.buffers[tensor]
            if parent.owned and buffer is not parent and buffer.bytes and buffer.parent is None:
                buffer.parent = parent
                parent.pending += 1

    def _extend(self, node: Node, position: int, tensor: Tensor) -> None:
        """A list with more in it: it keeps what was in it before."""
        source = position if node.subgraphs and "body" in node.attrs else 0
        before = node.inputs[source] if source < len(node.inputs) else None
        parent = self.buffers[before] if before is not None and is_list(before) else None
        growth = self.lists[tensor].growth
        if parent is not None and not growth:
            parent.pending += self.uses.get(tensor, 0)
            self.buffers[tensor] = parent
            return
        buffer = self._hold(tensor, growth)
        if parent is not None and parent.owned and growth:
            buffer.parent = parent
            parent.pending += 1

    def _allocate(self, tensor: Tensor) -> None:
        size = self.sizes.nbytes(tensor)
        self._hold(tensor, size if size >= CHAIN_BYTES else 0)

    def _hold(self, tensor: Tensor, size: int) -> _Buffer:
        buffer = _Buffer(tensor, size, owned=True, pending=self.uses.get(tensor, 0))
        self.buffers[tensor] = buffer
        if size:
            self.bytes += size
            self.alive[id(buffer)] = buffer
        return buffer

    def _shared_buffer(self, node: Node) -> _Buffer | None:
        """Return the buffer that the first output shares with an input, if this is certain."""
        if isinstance(node, Loop) or not node.inputs:
            return None
        if self.ops.aliases(node):
            return self.buffers[node.inputs[0]]
        output = node.outputs[0] if node.outputs else None
        if output is None or output.nbytes < CHAIN_BYTES:
            return None
        for position in self.ops.forwards(node):
            if position >= len(node.inputs):
                continue
            tensor = node.inputs[position]
            buffer = self.buffers[tensor]
            if (
                buffer.owned
                and buffer.pending == 1
                and tensor.nbytes == output.nbytes == buffer.bytes
                and tensor.dtype == output.dtype
            ):
                return buffer
        return None

    def _finish(self, node: Node) -> None:
        for tensor in node.inputs:
            self._release(self.buffers[tensor], 1)
        for tensor in node.outputs:
            if not self.uses.get(tensor, 0):
                self._release(self.buffers[tensor], 0)

    def _release(self, buffer: _Buffer, count: int) -> None:
        buffer.pending -= count
        if buffer.pending <= 0 and id(buffer) in self.alive:
            del self.alive[id(buffer)]
            self.bytes -= buffer.bytes
            if buffer.parent is not None:
                self._release(buffer.parent, 1)


def resident_bytes(graph: Graph) -> int:
    """Return the bytes that exist before a call: inputs, what handles hold, constants."""
    inputs = sum(tensor.nbytes + tensor.held for tensor in graph.inputs)
    constants = sum(node.output.nbytes for node in walk(graph) if node.op == "Const")
    return inputs + constants


def largest_tensors(graph: Graph, count: int) -> Sequence[tuple[Tensor, Node]]:
    """Return the largest tensors that the nodes of a graph make, aliases left out."""
    found: list[tuple[Tensor, Node]] = []
    seen: set[tuple[str, object]] = set()
    for node in graph.nodes:
        for tensor in node.outputs:
            if (key := (tensor.name, tensor.shape)) not in seen:
                seen.add(key)
                found.append((tensor, node))
    return sorted(found, key=lambda item: -item[0].nbytes)[:count]
