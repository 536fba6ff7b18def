"""Growth of regions: all nodes that one axis of one large tensor reaches.

From a seed tensor and an axis the region grows over producers and consumers, following the axis's
label. Backward it ends at small tensors, graph inputs, and results of ops that need the axis
whole: these tensors are sliced. Forward it ends at reductions of the axis, and at ops that need the
axis whole or are not admitted, for which the chunks are concatenated. So a region always exists.
The projection of the result tells whether it saves memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Node, SplitAxis, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.refusal import Refusal
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.region import Member, RefusedSplit, Region


class NeedsBlock(Exception):
    """The axis is merged into another one, so an index of the region must be `block` elements."""

    def __init__(self, block: int) -> None:
        super().__init__(block)
        self.block = block


def grow(
    index: DefUse,
    seed: Tensor,
    axis: int,
    is_large: Callable[[Tensor], bool],
    remake: bool = False,
    admits: Callable[[Node, AxisRule], bool] | None = None,
) -> Region | None:
    """Return the region of one axis of `seed`; None if no node can take part.

    `remake`: cheap nodes that read nothing that carries the axis, such as a Fill, are recomputed in
    the region instead of joining it to their other readers.
    `admits(node, rule)` is called before each node joins; if it is false, the region ends there.
    Its exceptions are passed on.
    Lists cannot be sliced. If a list would be read partly outside of the region, the region is
    grown again without nodes that read or make lists.
    """
    size = _size(seed, axis)
    block = 1
    while size % block == 0 and size // block > 1:
        try:
            for lists in (True, False):
                start = Region(seed, axis, size // block)
                growth = _Growth(index, start, is_large, remake, admits, lists)
                region = growth.run()
                if not growth.parts_lists:
                    return region
            return None
        except NeedsBlock as need:
            block *= need.block
    return None


def _size(tensor: Tensor, axis: int) -> int:
    size = (tensor.axes or ())[axis]
    assert size is not None
    return size


class _Growth:
    def __init__(
        self,
        index: DefUse,
        region: Region,
        is_large: Callable[[Tensor], bool],
        remake: bool,
        admits: Callable[[Node, AxisRule], bool] | None,
        lists: bool,
    ) -> None:
        self.index = index
        self.lists = lists
        self.parts_lists = False
        self.remake = remake
        self.admits = admits
        self.is_large = is_large
        self.region = region
        self.work: list[Tensor] = []  # large tensors whose readers are still to be followed
        # Large operands, to be followed to their producers.
        self.back: list[tuple[Tensor, SplitAxis]] = []

    def run(self) -> Region | None:
        seed = self.region.seed
        producer = self.index.producer.get(seed)
        axis = self.region.axis
        slot = SplitAxis(axis, _size(seed, axis) // self.region.extent)
        if producer is not None:
            self._join_producer(seed, slot)
        if seed not in self.region.slots:  # the seed is a source: follow its readers only
            for node, position in self.index.readers.get(seed, ()):
                self._join_reader(seed, slot, node, position)
        self._drain()
        if not self.region.members:
            return None
        while self._absorb():
            self._drain()
        self.parts_lists = self._parts_lists()
        return None if self.parts_lists else self.region

    def _parts_lists(self) -> bool:
        """Return whether a list would be sliced or concatenated, which is impossible."""
        region, index = self.region, self.index
        for node in region.members:
            for position, tensor in enumerate(node.inputs):
                parted = is_list(tensor) and region.slot_of(node, position) is not None
                if parted and not region.inside(node, position):
                    return True
            # A remade node, such as one that makes an empty list, also stays outside of the loops.
            for tensor in () if node in region.remade else node.outputs:
                if not is_list(tensor) or tensor not in region.slots:
                    continue
                if tensor in index.outputs or any(
                    reader not in region.members or not region.inside(reader, at)
                    for reader, at in index.readers.get(tensor, ())
                ):
                    return True
        return False

    def _drain(self) -> None:
        while self.work or self.back:
            while self.back:
                operand, slot = self.back.pop()
                if operand not in self.region.slots:
                    self._join_producer(operand, slot)
            if self.work:
                tensor = self.work.pop()
                slot = self.region.slots[tensor]
                for node, position in self.index.readers.get(tensor, ()):
                    self._join_reader(tensor, slot, node, position)

    def _join_producer(self, tensor: Tensor, slot: SplitAxis) -> bool:
        """Let the producer of `tensor` join; otherwise the tensor stays a source."""
        node = self.index.producer[tensor]
        rule = self.index.rule(node, lists=self.lists)
        if isinstance(rule, Refusal):
            return self._refuse(tensor, slot.axis, node, rule.reason)
        axis = rule.results[node.outputs.index(tensor)][slot.axis]
        if axis is None:
            return False
        if not axis.splittable:
            return self._refuse(tensor, slot.axis, node, f'needs it whole ("{rule}")')
        return self._join(node, rule, axis.label, self._unit(slot, axis.block), tensor, slot.axis)

    def _join_reader(self, tensor: Tensor, slot: SplitAxis, node: Node, position: int) -> bool:
        """Let a consumer join; otherwise the tensor's chunks are concatenated for it."""
        rule = self.index.rule(node, lists=self.lists)
        if isinstance(rule, Refusal):
            return self._refuse(tensor, slot.axis, node, rule.reason)
        axes = rule.operands[position]
        axis = axes[slot.axis] if axes is not None else None
        if axis is None:
            return False
        if not axis.splittable:
            return self._refuse(tensor, slot.axis, node, f'needs it whole ("{rule}")')
        return self._join(node, rule, axis.label, self._unit(slot, axis.block), tensor, slot.axis)

    def _unit(self, slot: SplitAxis, block: int) -> int:
        if slot.block % block:
            raise NeedsBlock(block)
        return slot.block // block

    def _join(
        self, node: Node, rule: AxisRule, label: str, unit: int, tensor: Tensor, axis: int
    ) -> bool:
        region = self.region
        known = region.members.get(node)
        if known is not None:
            if (known.label, known.unit) == (label, unit):
                return True
            return self._refuse(tensor, axis, node, "it is reached along two of its axes")
        if rule.sizes[label] != region.extent * unit:
            return self._refuse(tensor, axis, node, "the axis changes its extent there")
        operands, results = rule.slots(label, unit)
        for made, slot in zip(node.outputs, results, strict=True):
            if slot is not None and region.slots.get(made, slot) != slot:
                return self._refuse(tensor, axis, node, "its result carries another axis")
        if label not in rule.combine and any(
            slot is None and self._is_read(made)
            for made, slot in zip(node.outputs, results, strict=True)
        ):
            return self._refuse(tensor, axis, node, "chunks do not make its other results")
        if self.admits is not None and not self.admits(node, rule):
            return False
        region.members[node] = Member(rule, label, unit, operands, results)
        remade = self.remake and self._is_remade(node)
        if remade:
            region.remade.add(node)
        for made, slot in zip(node.outputs, results, strict=True):
            if slot is not None:
                region.slots[made] = slot
                if self.is_large(made) and not remade:
                    self.work.append(made)
        for operand, slot in zip(node.inputs, operands, strict=True):
            if slot is None or operand in region.slots or not self.is_large(operand):
                continue
            if operand in self.index.producer:
                self.back.append((operand, slot))
        return True

    def _is_remade(self, node: Node) -> bool:
        """Return whether a member is cheap to recompute and reads nothing that carries the axis."""
        region, ops = self.region, self.index.ops
        if any(region.members[node].operands) or region.seed in node.outputs:
            return False
        if region.combiner(node) is not None:
            return False
        return ops.flops(node) <= sum(tensor.size for tensor in node.outputs)

    def _is_read(self, made: Tensor) -> bool:
        return made in self.index.outputs or made in self.index.readers

    def _refuse(self, tensor: Tensor, axis: int, node: Node, reason: str) -> bool:
        self.region.refusals.append(RefusedSplit(tensor, axis, node, reason))
        return False

    # Small tensors on a path from one member to another join the region if they carry the axis.
    # Otherwise the row sums of a softmax would be completed results, and start a new stage.

    def _absorb(self) -> bool:
        """Join the nodes on paths of small tensors between members; return whether any joined."""
        forward = dict(self._small_forward())
        if not forward:
            return False
        wanted = {
            operand
            for node in self.region.members
            for position, operand in enumerate(node.inputs)
            if self.region.slot_of(node, position) is not None and operand not in self.region.slots
        }
        between: list[Node] = []
        for node in reversed(forward):
            if any(tensor in wanted for tensor in node.outputs):
                between.append(node)
                wanted.update(node.inputs)
        joined = False
        for node in reversed(between):
            if node in self.region.members:
                continue
            tensor, slot, position = forward[node]
            joined |= self._join_reader(tensor, slot, node, position)
        return joined

    def _small_forward(self) -> Iterator[tuple[Node, tuple[Tensor, SplitAxis, int]]]:
        """Yield the nodes outside the region that its small tensors reach, in order.

        With each node, yield the operand that carries the axis, its slot, and its position.
        """
        index = self.index
        slots = {t: slot for t, slot in self.region.slots.items() if not self.is_large(t)}
        waiting: list[int] = []  # positions of readers, a heap

        def follow(tensor: Tensor) -> None:
            for reader, _ in index.readers.get(tensor, ()):
                heapq.heappush(waiting, index.position[reader])

        for tensor in slots:
            follow(tensor)
        last = -1
        while waiting:
            at = heapq.heappop(waiting)
            node = index.graph.nodes[at]
            if at == last or node in self.region.members:
                continue
            last = at
            for position, tensor in enumerate(node.inputs):
                slot = slots.get(tensor)
                if slot is None:
                    continue
                rule = self.index.rule(node, lists=self.lists)
                if isinstance(rule, Refusal):
                    break
                axes = rule.operands[position]
                axis = axes[slot.axis] if axes is not None else None
                if axis is None or not axis.splittable or slot.block % axis.block:
                    continue
                unit = slot.block // axis.block
                found = rule.slots(axis.label, unit)[1]
                if None in found:
                    break  # reduced here: a completed result
                for made, carried in zip(node.outputs, found, strict=True):
                    assert carried is not None
                    if not self.is_large(made) and made not in slots:
                        slots[made] = carried
                        follow(made)
                yield node, (tensor, slot, position)
                break
