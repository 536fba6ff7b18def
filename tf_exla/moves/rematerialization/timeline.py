"""A plan as a timeline: which tensors are computed when, alive at the peak, and read later."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.copying import copy_nodes
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import walk_node, without_dead
from tf_exla.model.cost import node_seconds
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projector

_OUTSIDE = frozenset({"constant", "read_variable"})
"""Ops whose results have their buffers before the call."""


@dataclass(frozen=True)
class Rerun:
    """Nodes that run again, in order, before the first late reader of their results.

    `nodes`: their positions in the plan. `before`: the position of that reader. `wanted`: tensors
    of which late readers read copies. `outside`: tensors that the copied nodes read from the plan.
    `seconds`: the estimated time.
    """

    nodes: tuple[int, ...]
    wanted: tuple[Tensor, ...]
    outside: frozenset[Tensor]
    before: int
    seconds: float


class Timeline:
    """The positions of a plan's tensors, before and after the node at position `peak`.

    A *holder* is a tensor with a buffer of its own; views of it keep the buffer alive. `last`: for
    each holder, the position up to which its buffer is alive. `idle`: the holders that are alive at
    the peak and not read there; for each of them, the tensors that are read later: itself, or views
    of it.
    """

    def __init__(self, graph: Graph, ops: OpSet, peak: int) -> None:
        self.graph, self.ops, self.peak = graph, ops, peak
        self.nodes = graph.nodes
        self.made_at = {tensor: at for at, node in enumerate(self.nodes) for tensor in node.outputs}
        self.readers: dict[Tensor, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for tensor in dict.fromkeys(node.inputs):
                self.readers.setdefault(tensor, []).append(at)
        self._holder: dict[Tensor, Tensor] = {}
        for node in self.nodes:
            if node.op != "constant" and node.inputs and (ops.aliases(node) or ops.may_alias(node)):
                source = max(node.inputs, key=lambda tensor: tensor.nbytes)
                for tensor in node.outputs:
                    self._holder[tensor] = self.holder(source)
        self.last: dict[Tensor, int] = {}
        for tensor, at in self.made_at.items():
            end = len(self.nodes) if tensor in graph.outputs else self.readers.get(tensor, [at])[-1]
            holder = self.holder(tensor)
            self.last[holder] = max(self.last.get(holder, 0), end)
        self.runs_again = [*map(self._can_run_again, self.nodes)]
        self.idle = self._idle()

    def holder(self, tensor: Tensor) -> Tensor:
        """Return the tensor whose buffer a tensor is, or is a part of."""
        return self._holder.get(tensor, tensor)

    def _idle(self) -> dict[Tensor, list[Tensor]]:
        if not self.nodes:
            return {}
        running = self.nodes[self.peak]
        busy = {self.holder(tensor) for tensor in (*running.inputs, *running.outputs)}
        busy.update(map(self.holder, self.graph.outputs))
        idle: dict[Tensor, list[Tensor]] = {}
        for tensor, at in self.made_at.items():
            holder = self.holder(tensor)
            if holder in busy or not at < self.peak < self.readers.get(tensor, [-1])[-1]:
                continue
            again = self.runs_again[at] and self.runs_again[self.made_at.get(holder, at)]
            if not self.is_large(holder) or not again:
                busy.add(holder)  # it cannot be dropped
                idle.pop(holder, None)
                continue
            idle.setdefault(holder, []).append(tensor)
        return idle

    def is_large(self, tensor: Tensor) -> bool:
        """Return whether a node computes a tensor and its buffer is at least `CHAIN_BYTES`."""
        at = self.made_at.get(tensor)
        if at is None or self.nodes[at].op in _OUTSIDE or tensor.dtype in HANDLES:
            return False
        return tensor.is_static and tensor.nbytes >= CHAIN_BYTES

    def is_there(self, tensor: Tensor) -> bool:
        """Return whether a tensor is alive after the peak anyway, or too small to count."""
        return not self.is_large(self.holder(tensor)) or self.last[self.holder(tensor)] > self.peak

    def rerun(
        self,
        wanted: Sequence[Tensor],
        is_read: Callable[[Tensor], bool],
        most: float = math.inf,
    ) -> Rerun | None:
        """Return the rerun that computes the tensors `wanted` again.

        It reads tensors for which `is_read` is true, inputs, and results of nodes that cannot run
        again; all other operands are computed again, too. None if that takes more than `most`
        seconds.
        """
        found: set[int] = set()
        outside: set[Tensor] = set()
        seconds = 0.0
        work = [self.made_at[tensor] for tensor in wanted]
        while work:
            at = work.pop()
            if at in found:
                continue
            found.add(at)
            seconds += node_seconds(self.ops, self.nodes[at])
            if seconds > most:
                return None
            for tensor in self.nodes[at].inputs:
                made = self.made_at.get(tensor, -1)
                if made in found:
                    continue
                if made < 0 or is_read(tensor) or not self.runs_again[made]:
                    outside.add(tensor)
                else:
                    work.append(made)
        outside -= {tensor for at in found for tensor in self.nodes[at].outputs}
        late = (at for one in wanted for at in self.readers[one] if at > self.peak)
        return Rerun(tuple(sorted(found)), tuple(wanted), frozenset(outside), min(late), seconds)

    def _can_run_again(self, node: Node) -> bool:
        if (
            node.stateful
            or node.op == "constant"
            or any(tensor.dtype in HANDLES for tensor in node.outputs)
        ):
            return False
        return all(map(self.ops.repeats, walk_node(node)))

    def with_reruns(self, reruns: Iterable[Rerun]) -> Graph:
        """Return the graph with the reruns, in which the original tensors are freed earlier."""
        before: dict[int, list[Rerun]] = {}
        for rerun in reruns:
            before.setdefault(rerun.before, []).append(rerun)
        nodes: list[Node] = []
        instead: dict[Tensor, Tensor] = {}
        for at, node in enumerate(self.nodes):
            for rerun in before.get(at, ()):
                chain = [self.nodes[k].substitute(instead) for k in rerun.nodes]
                copies = {tensor: tensor for one in chain for tensor in one.inputs}
                nodes += copy_nodes(chain, copies)
                instead.update((tensor, copies[tensor]) for tensor in rerun.wanted)
            nodes.append(node.substitute(instead))
        return without_dead(self.graph.with_nodes(nodes))


def own_bytes(graph: Graph, projector: Projector) -> Iterator[int]:
    """Yield the bytes that each node needs by itself while it runs, a lower bound of the peak."""
    timeline = Timeline(graph, projector.ops, 0)
    for node in graph.nodes:
        ends = [{*map(timeline.holder, tensors)} for tensors in (node.inputs, node.outputs)]
        needed = (sum(one.nbytes for one in end if timeline.is_large(one)) for end in ends)
        yield max(needed) + projector.temporary(node)
