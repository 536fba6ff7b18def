"""Small lists: the gradient of a loop recomputes large tensors that lists would keep for it.

Each iteration of a While keeps results in lists, which the iterations of its gradient pop: a matrix
of transport costs, for example. A list cannot be split, so such a matrix stays whole. If an
iteration computes it from small tensors, and from tensors that no iteration changes, the lists keep
the small tensors instead. The gradient computes the matrix from them, and both bodies can be split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.clean import drop_dead
from tf_exla.ir.control_flow import Variable, body_of, is_while, passed_on, with_variables
from tf_exla.ir.copying import copy_nodes
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, put_in_order, with_subgraphs
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.user_loops.kept_lists import KeptList, kept_lists, new_list
from tf_exla.moves.user_loops.sinking import movable
from tf_exla.split.regions.origins import clash, is_test, tests_order


def keep_less(graph: Graph, ops: OpSet) -> Graph:
    """Let lists keep the small operands of their large tensors; the same graph if there are none.

    A large tensor stays in its list if its numbers are compared with others that must have the same
    bits.
    """
    nodes = [with_subgraphs(node, lambda sub: keep_less(sub, ops)) for node in graph.nodes]
    made = graph.with_nodes(nodes)
    while (shorter := _shortened(made)) is not None:
        made = shorter
    if made is graph or (tests_order(made) and clash(made, ops) is not None):
        return graph
    return drop_dead(made)


@dataclass(frozen=True)
class _Part:
    """Nodes of a body, in their order, and the tensors that they read from outside of them."""

    nodes: tuple[Node, ...]
    sources: tuple[Tensor, ...]


def _shortened(graph: Graph) -> Graph | None:
    """Return the graph with smaller lists between two of its Whiles; None if there are none."""
    made_by = producers(graph)
    for backward in filter(is_while, graph.nodes):
        makers = dict.fromkeys(made_by[t] for t in backward.inputs if t in made_by)
        for forward in filter(is_while, makers):
            lists = list(kept_lists(graph, forward, backward))
            found = ((one, _part_of(forward, backward, one)) for one in lists)
            parts = {one: part for one, part in found if part is not None}
            if parts:
                return _Pair(forward, backward, lists, parts).replaced(graph)
    return None


def _part_of(forward: Node, backward: Node, one: KeptList) -> _Part | None:
    """Return the part of `forward`'s body that computes the items of a list; None if there is none.

    It must read only small tensors, and variables that no iteration changes.
    """
    body, item = body_of(forward), one.item
    if not item.is_static or item.dtype in HANDLES or item.nbytes < SETTINGS.worth_bytes:
        return None
    least = item.nbytes // SETTINGS.kept_part
    wanted, nodes = {item}, []
    for node in reversed(body.nodes):
        found = [tensor for tensor in node.outputs if tensor in wanted]
        small = item not in found and all(tensor.nbytes <= least for tensor in found)
        if not found or (small and node.inputs):
            continue
        if not movable(node):
            return None
        nodes.append(node)
        wanted.update(node.inputs)
    part = _Part(tuple(reversed(nodes)), tuple(_sources(reversed(nodes))))
    same = {body.inputs[k] for k in passed_on(forward)}
    kept = [tensor for tensor in part.sources if tensor not in same]
    if not nodes or any(not t.is_static or t.dtype in HANDLES for t in part.sources):
        return None
    if sum(tensor.nbytes for tensor in kept) > least or _meets(part, body_of(backward), one.pop):
        return None
    return part


def _sources(nodes: Iterable[Node]) -> Iterator[Tensor]:
    """Yield the tensors that nodes read from outside of them, each once."""
    seen: set[Tensor] = set()
    for node in nodes:
        for tensor in node.inputs:
            if tensor not in seen:
                seen.add(tensor)
                yield tensor
        seen.update(node.outputs)


def _meets(part: _Part, body: Graph, pop: Node) -> bool:
    """Return whether a recomputed number would be compared with another tensor's numbers."""
    derived = {pop.outputs[1]}
    for node in body.nodes:
        if not derived.isdisjoint(node.inputs):
            derived.update(node.outputs)
    tests = [node for node in body.nodes if is_test(node) and not derived.isdisjoint(node.inputs)]
    tests += filter(is_test, part.nodes)
    return any(all(tensor.value is None for tensor in node.inputs) for node in tests)


class _Pair:
    """A While and its gradient, and the `lists` between them; those with `parts` are replaced."""

    def __init__(
        self,
        forward: Node,
        backward: Node,
        lists: Sequence[KeptList],
        parts: Mapping[KeptList, _Part],
    ) -> None:
        self.forward = forward
        self.backward = backward
        self.chosen = list(parts)
        needed = {node for part in parts.values() for node in part.nodes}
        self.part = [node for node in body_of(forward).nodes if node in needed]
        self.popped = {one.item: one.pop.outputs[1] for one in lists if one not in parts}
        self.starts: list[Node] = []
        self.pushes: list[Node] = []
        self.pops: list[Node] = []
        self.pushed: list[Variable] = []  # variables of `forward`
        self.read: list[Variable] = []  # variables of `backward`; their first values are set later

    def replaced(self, graph: Graph) -> Graph:
        """Return the graph with both loops changed."""
        inside = self._inside()
        copies = copy_nodes(self.part, inside)
        forward, backward = self._forward(), self._backward(copies, inside)
        lists = forward.outputs[len(forward.outputs) - len(self.pushed) :]
        first = len(backward.inputs) - len(lists)
        backward = backward.replace(inputs=(*backward.inputs[:first], *lists))
        nodes: list[Node] = []
        for node in graph.nodes:
            if node is self.forward:
                nodes += [*self.starts, forward]
            else:
                nodes.append(backward if node is self.backward else node)
        return graph.replace(nodes=put_in_order(nodes))

    def _inside(self) -> dict[Tensor, Tensor]:
        """Return the tensor of the gradient's body for each tensor that the copied nodes read."""
        body = body_of(self.forward)
        passed = {body.inputs[k]: self.forward.inputs[k] for k in passed_on(self.forward)}
        inside: dict[Tensor, Tensor] = {}
        lists: list[Variable] = []
        for tensor in _sources(self.part):
            if tensor in passed:
                inside[tensor] = inner = tensor.fresh_copy()
                self.read.append(Variable(passed[tensor], inner, inner))
            elif tensor in self.popped:
                inside[tensor] = self.popped[tensor]
            else:
                inside[tensor], variable = self._listed(tensor)
                lists.append(variable)
        self.read += lists
        return inside

    def _listed(self, kept: Tensor) -> tuple[Tensor, Variable]:
        """Keep a small tensor in a list of its own.

        Return the popped tensor and the variable of the list, for the gradient's body.
        """
        made = new_list(self.chosen[0], kept)
        self.starts += made.starts
        self.pushes.append(made.push)
        self.pushed.append(made.pushed)
        self.pops += made.pops
        return made.value, made.read

    def _forward(self) -> Node:
        body, pushes = body_of(self.forward), {one.push for one in self.chosen}
        nodes = (*(node for node in body.nodes if node not in pushes), *self.pushes)
        dropped = {one.at for one in self.chosen}
        return with_variables(self.forward, self.pushed, dropped, body.replace(nodes=nodes))

    def _backward(self, copies: Sequence[Node], inside: dict[Tensor, Tensor]) -> Node:
        body, pops = body_of(self.backward), {one.pop for one in self.chosen}
        names = {one.pop.outputs[1]: inside[one.item] for one in self.chosen}
        rest = [node.substitute(names) for node in body.nodes if node not in pops]
        body = body.with_nodes(put_in_order([*self.pops, *copies, *rest]), names)
        dropped = {one.end for one in self.chosen}
        return with_variables(self.backward, self.read, dropped, body)
