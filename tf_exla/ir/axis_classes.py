"""Equivalence classes of tensor axes that axis rules treat as one axis."""

from __future__ import annotations

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Node, Tensor

Place = tuple[Tensor, int]
"""A tensor, and the position of one of its axes."""


class AxisClasses:
    """A union-find over the axes of tensors."""

    def __init__(self) -> None:
        self._parent: dict[Place, Place] = {}

    def root(self, place: Place) -> Place:
        """Return the representative of the class of `place`."""
        while place in self._parent:
            place = self._parent[place]
        return place

    def union(self, one: Place, other: Place) -> None:
        """Merge the classes of two axes."""
        here, there = self.root(one), self.root(other)
        if here != there:
            self._parent[here] = there

    def join(self, node: Node, rule: AxisRule, reduces: bool) -> set[Place]:
        """Join the axes of one node that share a label; return those that it needs whole.

        `reduces`: whether the node may reduce a split axis. If not, axes that no result carries are
        needed whole as well.
        """
        first: dict[str, Place] = {}
        whole: set[Place] = set()
        made = {axis.label for axes in rule.results for axis in axes if axis is not None}
        for tensors, axes_of_each in ((node.inputs, rule.operands), (node.outputs, rule.results)):
            for tensor, axes in zip(tensors, axes_of_each, strict=True):
                for position, axis in enumerate(axes or ()):
                    if axis is None:
                        continue
                    place = (tensor, position)
                    self.union(place, first.setdefault(axis.label, place))
                    if not axis.splittable or axis.block != 1:
                        whole.add(place)
                    if axis.label not in made and not reduces:
                        whole.add(place)
        return whole
