"""Regions: the nodes that one axis of one large tensor reaches, as `growth.py` finds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Combine, Node, SplitAxis, Tensor


@dataclass(frozen=True, slots=True)
class RefusedSplit:
    """Why `axis` of `tensor` could not be split through `node`."""

    tensor: Tensor
    axis: int
    node: Node
    reason: str


class Member(NamedTuple):
    """How a node takes part in a region.

    `label`: the label in its rule of the axis that is split; `unit`: elements of that axis per
    index of the region. `operands`, `results`: where each tensor carries the axis; None: an operand
    is read whole, a result is reduced.
    """

    rule: AxisRule
    label: str
    unit: int
    operands: tuple[SplitAxis | None, ...]
    results: tuple[SplitAxis | None, ...]


@dataclass
class Region:
    """The nodes that carry one axis class, and the slots of their tensors.

    `extent`: number of indices of the axis. `slots`: results of members that carry the axis. Other
    operands of a member are sliced or whole, as `slot_of` says.
    `remade`: members that read nothing that carries the axis, such as a Fill. They also stay
    outside the loops for other readers, so that these do not depend on a loop.
    """

    seed: Tensor
    axis: int
    extent: int
    members: dict[Node, Member] = field(default_factory=dict)
    slots: dict[Tensor, SplitAxis] = field(default_factory=dict)
    refusals: list[RefusedSplit] = field(default_factory=list)
    remade: set[Node] = field(default_factory=set)

    def slot_of(self, node: Node, position: int) -> SplitAxis | None:
        """Return where operand `position` of a member carries the axis; None: it is whole."""
        return self.members[node].operands[position]

    def result_slot(self, node: Node, position: int) -> SplitAxis | None:
        """Return where result `position` of a member carries the axis; None: it is reduced."""
        return self.members[node].results[position]

    def combiner(self, node: Node) -> Combine | None:
        """Return how the partial results of a member are combined; None: they are not reduced."""
        member = self.members[node]
        if any(member.results):
            return None
        return member.rule.combine[member.label]

    def inside(self, node: Node, position: int) -> bool:
        """Return whether an operand is another member's result, and is read chunk by chunk."""
        slot = self.members[node].operands[position]
        return slot is not None and self.slots.get(node.inputs[position]) == slot

    def enlarging(self) -> frozenset[Node]:
        """Return the reductions whose result is larger than the operands that carry the axis.

        A gradient that is scattered into a large table is one. It takes less memory to concatenate
        the chunks of its operand than to add up one table per chunk.
        """
        return frozenset(
            node
            for node in self.members
            if self.combiner(node) is not None
            and (read := self._bytes_read_inside(node))
            and sum(made.nbytes for made in node.outputs) > read
        )

    def _bytes_read_inside(self, node: Node) -> int:
        """Return the bytes of the tensors that a member reads from other members."""
        read = {t for at, t in enumerate(node.inputs) if self.inside(node, at)}
        return sum(tensor.nbytes for tensor in read)

    @property
    def key(self) -> frozenset[tuple[Node, str]]:
        return frozenset((node, member.label) for node, member in self.members.items())
