"""An index of a graph: its producers, consumers and axis rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traverse import consumers, producers
from tf_exla.model.projection import Made
from tf_exla.split.regions.while_axes import while_rule


@dataclass(frozen=True, eq=False)
class DefUse:
    """An immutable index of one graph. `made`: memoized results, shared by graphs of one search."""

    graph: Graph
    ops: OpSet
    made: Made = field(default_factory=Made)
    _whiles: dict[Node, AxisRule | Refusal] = field(default_factory=dict)

    @cached_property
    def producer(self) -> dict[Tensor, Node]:
        return producers(self.graph)

    @cached_property
    def readers(self) -> dict[Tensor, list[tuple[Node, int]]]:
        return consumers(self.graph)

    @cached_property
    def outputs(self) -> frozenset[Tensor]:
        return frozenset(self.graph.outputs)

    @cached_property
    def position(self) -> dict[Node, int]:
        return {node: i for i, node in enumerate(self.graph.nodes)}

    @cached_property
    def descendants(self) -> dict[Node, int]:
        """For each node, the nodes that depend on it, as a bit mask over positions in the graph."""
        found: dict[Node, int] = {}
        for node in reversed(self.graph.nodes):
            mask = 0
            for tensor in node.outputs:
                for reader, _ in self.readers.get(tensor, ()):
                    mask |= found[reader] | (1 << self.position[reader])
            found[node] = mask
        return found

    def rule(self, node: Node, lists: bool = False) -> AxisRule | Refusal:
        """Return the axis rule by which a node may be split, or the reason why it may not.

        `lists`: a While, and nodes that read or make a list, may be split as well.
        """
        if node.stateful:
            return Refusal(f"{node.op} has side effects or state: it runs exactly once")
        if isinstance(node, Loop):
            return Refusal("it is a loop already")
        if lists and is_while(node) and self.ops.resizable(node):
            return self._while_rule(node)
        rule = self.ops.rule(node, lists)
        if isinstance(rule, AxisRule) and not self.ops.resizable(node):
            return Refusal(f"{node.op} cannot be made for another shape")
        return rule

    def _while_rule(self, node: Node) -> AxisRule | Refusal:
        known = self._whiles.get(node)
        if known is None:
            wanted = self.outputs | {t for t in node.outputs if self.readers.get(t)}
            known = self._whiles[node] = while_rule(self.ops, node, self.producer, wanted)
        return known
