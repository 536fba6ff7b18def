"""Lifetimes: the buffers that are alive at each node of a graph, from its order and its readers.

The walk follows the plan: a node's outputs are allocated before its inputs are freed, and an input
is freed after its last consumer. Temporary memory of nodes plays no part, so the lifetimes around a
loop do not depend on its chunk.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.control_flow import is_while, passed_on
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.model.result_buffers import result_buffers
from tf_exla.model.sizes import Sizes
from tf_exla.model.views import Views

CHAIN_BYTES = 4096
"""Nodes that touch a tensor of at least this many bytes wait for earlier ones, as in the plan."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The buffers that are alive during each node, its outputs included.

    `held`: their bytes, for each node. `loose`: the bytes of tensors below `CHAIN_BYTES`. Their
    nodes are not ordered, so these bytes are included in each of `held`. `spans`: for each buffer,
    its first tensor, its bytes, and the positions of the first and last node at which it is alive.
    """

    held: tuple[int, ...]
    loose: int
    spans: tuple[tuple[Tensor, int, int, int], ...]

    def live(self, position: int) -> tuple[tuple[Tensor, int], ...]:
        """Return the buffers that are alive during one node, largest first."""
        found = [
            (tensor, size) for tensor, size, first, last in self.spans if first <= position <= last
        ]
        return tuple(sorted(found, key=lambda one: -one[1]))


def lifetimes(
    graph: Graph,
    ops: OpSet,
    sizes: Sizes,
    sliced: frozenset[Tensor],
    variables: frozenset[Tensor] = frozenset(),
) -> Lifetimes:
    """Compute the lifetimes of a graph's buffers.

    `sliced`: inputs that are allocated by the run itself, right before their first use: chunks.
    `variables`: inputs whose buffers the graph may overwrite.
    """
    return _Walk(graph, ops, sizes, sliced, variables).run()


@dataclass(eq=False, slots=True)
class _Buffer:
    """Memory shared by one or more tensors; `pending`: uses of it that are still to come."""

    tensor: Tensor
    bytes: int
    owned: bool
    pending: int = 0
    first: int = 0
    last: int = -1  # until it is freed
    parents: tuple[_Buffer, ...] = ()  # kept alive by this buffer


class _Walk:
    """The state of one walk over the nodes."""

    def __init__(
        self,
        graph: Graph,
        ops: OpSet,
        sizes: Sizes,
        sliced: frozenset[Tensor],
        variables: frozenset[Tensor],
    ) -> None:
        self.graph, self.ops, self.sizes, self.sliced = graph, ops, sizes, sliced
        self.variables = variables
        self.uses = Counter(chain.from_iterable(node.inputs for node in graph.nodes))
        self.uses.update(graph.outputs)
        self.views = frozenset(n for n in graph.nodes if n.op != "constant" and ops.aliases(n))
        self.lists = sizes.lists(graph)
        self.fused = ops.fused(graph)
        self.buffers: dict[Tensor, _Buffer] = {}
        self.values: dict[Tensor, _Buffer] = {}  # values of variables since their last assignment
        self.parts = Views(ops) if any(map(self._assigns, graph.nodes)) else None
        self.reserved: dict[Tensor, _Buffer] = {}  # results whose nodes have not run
        self.sized: list[_Buffer] = []
        self.leaving: list[_Buffer] = []
        self.position = 0
        self.bytes = 0

    def run(self) -> Lifetimes:
        for tensor in self.graph.inputs:
            if tensor not in self.sliced:
                uses = self.uses.get(tensor, 0)
                self.buffers[tensor] = _Buffer(tensor, 0, tensor in self.variables, uses)
        if self.graph.results_first:
            self._reserve_results()
        nbytes, fused = self.sizes.nbytes, self.fused
        made = (one for one in chain(self._made(), self.sliced) if one not in fused)
        sizes = (tensor.nbytes if tensor.is_static else nbytes(tensor) for tensor in made)
        loose = sum(size for size in sizes if size < CHAIN_BYTES)
        held: list[int] = []
        for position, node in enumerate(self.graph.nodes):
            self.position = position
            self._start(node)
            held.append(loose + self.bytes + self._copied(node))
            self._finish(node)
        end = len(held)
        spans = (
            (one.tensor, one.bytes, one.first, end if one.last < 0 else one.last)
            for one in self.sized
        )
        return Lifetimes(tuple(held), loose, tuple(spans))

    def _reserve_results(self) -> None:
        """Allocate the results before the first node."""
        for tensor in result_buffers(self.graph, self.ops, self.views, self.uses):
            size = self.sizes.nbytes(tensor)
            if size >= CHAIN_BYTES:
                self.reserved[tensor] = self._hold(tensor, size)

    def _made(self) -> Iterator[Tensor]:
        for node in self.graph.nodes:
            if node.op != "constant" and node not in self.views:
                yield from node.outputs

    def _start(self, node: Node) -> None:
        """Allocate the outputs."""
        if node.op == "constant":
            self.buffers[node.output] = _Buffer(node.output, 0, owned=False)
            return
        buffers = self.buffers
        for tensor in node.inputs:
            if tensor not in buffers:
                if tensor in self.fused:
                    self._hold(tensor, 0)
                else:
                    self._allocate(tensor)
        if node.stateful and (node.subgraphs or not node.outputs):
            self._keep_values(node)
        shared = self._shared(node)
        for position, tensor in enumerate(node.outputs):
            if position in shared:
                if tensor in self.reserved:
                    self._free(self.reserved.pop(tensor))
                shared[position].pending += self.uses.get(tensor, 0)
                buffers[tensor] = shared[position]
            elif tensor in self.lists:
                self._extend(node, position, tensor)
            elif tensor in self.fused:
                self._keep_operands(node, tensor)
            else:
                self._allocate(tensor)
        if node.inputs and self.ops.may_alias(node):
            self._hold_parent(node)
        elif node.outputs and node.outputs[0].nbytes < CHAIN_BYTES:
            self._in_a_view(node)

    def _shared(self, node: Node) -> dict[int, _Buffer]:
        """Map positions of results to the buffers that they share with operands or each other."""
        shared: dict[int, _Buffer] = {}
        if is_while(node):
            shared = {k: self.buffers[node.inputs[k]] for k in passed_on(node)}
            if self.ops.overwrites_variables():
                for k, tensor in enumerate(node.inputs):
                    if k not in shared and self._dies(tensor, node.outputs[k]):
                        shared[k] = self.buffers[tensor]
        elif node.op == "identity_n":
            return {k: self.buffers[tensor] for k, tensor in enumerate(node.inputs)}
        if (first := self._shared_buffer(node)) is not None:
            shared[0] = first
        if (
            node.is_open
            and not all(tensor.is_static for tensor in node.outputs)
            and self.ops.joint(node)
        ):
            together = self._hold(node.outputs[0], self.sizes.nbytes(node.inputs[0]))
            together.pending = 0
            shared = dict.fromkeys(range(len(node.outputs)), together)
        return shared

    def _keep_values(self, node: Node) -> None:
        """Count the value that a variable had before an assignment, if it is still read."""
        for handle in node.inputs:
            old = self.values.pop(handle, None)
            if old is not None and old.pending > 0:
                old.bytes, old.first = self.sizes.nbytes(old.tensor), self.position
                self.bytes += old.bytes
                self.sized.append(old)

    def _assigns(self, node: Node) -> bool:
        return node.stateful and not node.outputs and self.ops.stores(node) is not None

    def _copied(self, node: Node) -> int:
        """Return the bytes that an assignment copies: those of a value in part of a buffer."""
        if self.parts is None:
            return 0
        self.parts.add(node)
        value = node.inputs[self.ops.stores(node) or 0] if self._assigns(node) else None
        return self.sizes.nbytes(value) if value is not None and value in self.parts else 0

    def _hold_parent(self, node: Node) -> None:
        """Keep the operand alive of which a result may be a view.

        The result itself counts as well, since it may be a copy.
        """
        # A view is not larger than its operand, so the largest operand is the one.
        parent = self.buffers[max(node.inputs, key=self._bytes_or_more)]
        for tensor in node.outputs:
            buffer = self.buffers[tensor]
            if parent.owned and buffer is not parent and not buffer.parents:
                buffer.parents += (parent,)
                parent.pending += 1

    def _bytes_or_more(self, tensor: Tensor) -> float:
        """Return the bytes of a tensor, their bound if its size is unknown, or else infinity."""
        if tensor.is_static or tensor.dtype in HANDLES:
            return tensor.nbytes
        return self.sizes.nbytes(tensor) or math.inf

    def _in_a_view(self, node: Node) -> None:
        """Keep alive what a view keeps alive if a small result may be computed in its buffer."""
        buffer = self.buffers[node.outputs[0]]
        for position in self.ops.forwards(node):
            if position < len(node.inputs) and not buffer.parents:
                operand = self.buffers[node.inputs[position]]
                if node.inputs[position].nbytes == node.outputs[0].nbytes:
                    buffer.parents += operand.parents
                    for parent in operand.parents:
                        parent.pending += 1

    def _extend(self, node: Node, position: int, tensor: Tensor) -> None:
        """Allocate the bytes by which a node enlarges a list; the previous list stays alive."""
        source = position if is_while(node) else 0
        before = node.inputs[source] if source < len(node.inputs) else None
        parent = self.buffers[before] if before is not None and is_list(before) else None
        growth = self.lists[tensor].growth
        if parent is not None and not growth:
            parent.pending += self.uses.get(tensor, 0)
            self.buffers[tensor] = parent
            return
        buffer = self._hold(tensor, growth)
        if parent is not None and parent.owned and growth:
            buffer.parents += (parent,)
            parent.pending += 1

    def _keep_operands(self, node: Node, tensor: Tensor) -> None:
        """Keep the operands of a fused result alive, since its readers compute it from them."""
        buffer = self._hold(tensor, 0)
        for operand in {self.buffers[one] for one in node.inputs}:
            buffer.parents += (operand,)
            operand.pending += 1

    def _allocate(self, tensor: Tensor) -> None:
        size = self.sizes.nbytes(tensor)
        self._hold(tensor, size if size >= CHAIN_BYTES else 0)

    def _hold(self, tensor: Tensor, size: int) -> _Buffer:
        if tensor in self.reserved:
            return self.reserved.pop(tensor)
        buffer = _Buffer(tensor, size, True, self.uses.get(tensor, 0), self.position)
        self.buffers[tensor] = buffer
        if size:
            self.bytes += size
            self.sized.append(buffer)
        return buffer

    def _shared_buffer(self, node: Node) -> _Buffer | None:
        """Return the buffer that the first output shares with an input, if this is certain."""
        if isinstance(node, Loop) or not node.inputs:
            return None
        if node.op == "read_variable" and node.stateful:
            value = _Buffer(node.outputs[0], 0, owned=True)
            return self.values.setdefault(node.inputs[0], value)
        if node in self.views:
            return self.buffers[node.inputs[0]]
        output = node.outputs[0] if node.outputs else None
        if output is None or output.nbytes < CHAIN_BYTES:
            return None
        for position in self.ops.forwards(node):
            if position >= len(node.inputs):
                continue
            tensor = node.inputs[position]
            if self._dies(tensor, output):
                return self.buffers[tensor]
        return None

    def _dies(self, tensor: Tensor, output: Tensor) -> bool:
        """Return whether this is an operand's last use and its buffer fits a result."""
        buffer = self.buffers[tensor]
        size = tensor.nbytes if tensor in self.variables else buffer.bytes
        alike = tensor.nbytes == output.nbytes == size and tensor.dtype == output.dtype
        return buffer.owned and buffer.pending == 1 and alike

    def _finish(self, node: Node) -> None:
        """Free the buffers that no later node uses.

        The tensors of a list are freed one by one. The next node may run meanwhile.
        """
        if node.op == "constant":
            return
        buffers, leaving = self.buffers, self.leaving
        self.leaving = []
        for buffer in leaving:
            self._free(buffer)
        for tensor in node.inputs:
            buffer = buffers[tensor]
            buffer.pending -= 1
            if buffer.pending <= 0:
                self._leave(buffer)
        for tensor in node.outputs:
            if tensor not in self.uses:
                buffer = buffers[tensor]
                if buffer.pending <= 0:
                    self._leave(buffer)

    def _leave(self, buffer: _Buffer) -> None:
        if is_list(buffer.tensor):
            self.leaving.append(buffer)
        else:
            self._free(buffer)

    def _free(self, buffer: _Buffer) -> None:
        """Free a buffer without pending uses, then the parents that only it kept alive."""
        if (buffer.bytes or buffer.parents) and buffer.last < 0:
            buffer.last = self.position
            self.bytes -= buffer.bytes
            for parent in buffer.parents:
                parent.pending -= 1
                if parent.pending <= 0:
                    self._free(parent)
