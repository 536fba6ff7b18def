"""Regions of two axes of one extent: [n, n] tensors and their contractions.

From a seed with two axes of the same extent the region grows over the nodes whose results carry
both axes (*members*). It ends at the nodes that sum over one axis or over both (*contractions*).
Tensors that equal their transposes need only the tiles on and below the diagonal: see
`symmetric_tiles.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_exla.ir.axis_rule import Axes, AxisRule
from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import EQUALITY
from tf_exla.split.regions.def_use import DefUse

Pair = tuple[int, int]
"""Two axes of a tensor, in ascending order."""


@dataclass
class PairRegion:
    """A region of two axes of size `extent`.

    `axes`: for each tensor that has both axes, where they are. `stage`: the stage of each
    contraction, as in `stages.py`.
    """

    seed: Tensor
    extent: int
    axes: dict[Tensor, Pair] = field(default_factory=dict)
    members: dict[Node, None] = field(default_factory=dict)
    contractions: dict[Node, None] = field(default_factory=dict)
    stage: dict[Node, int] = field(default_factory=dict)

    @property
    def key(self) -> frozenset[Node]:
        return frozenset(self.members)

    def labels(self, rule: AxisRule, node: Node) -> tuple[str, str]:
        """Return the labels of the two axes in a node's rule.

        Their order is that of the axes in the first of its results, then operands, that has both.
        """
        for axes, tensor in zip(rule.results, node.outputs, strict=True):
            if tensor in self.axes:
                return _names(axes, self.axes[tensor])
        for operand, tensor in zip(rule.operands, node.inputs, strict=True):
            if tensor in self.axes and operand is not None:
                return _names(operand, self.axes[tensor])
        raise ValueError(f"{node} has no tensor with both axes")


def grow_pair(index: DefUse, seed: Tensor, axes: Pair) -> PairRegion | None:
    """Return the region of two axes of `seed`.

    None if a node in it cannot be computed tile by tile, or if there is no contraction.
    """
    region = PairRegion(seed, seed.dims[axes[0]])
    try:
        work = [seed]
        region.axes[seed] = axes
        while work:
            tensor = work.pop()
            work += _producer(index, region, tensor)
            for node, position in index.readers.get(tensor, ()):
                work += _reader(index, region, tensor, node, position)
        _check(index, region)
    except Refusal:
        return None
    _number_stages(index, region)
    return region if region.contractions else None


def _names(axes: Axes, pair: Pair) -> tuple[str, str]:
    found = []
    for at in pair:
        axis = axes[at]
        if axis is None or not axis.splittable or axis.block != 1:
            raise Refusal
        found.append(axis.label)
    if found[0] == found[1]:
        raise Refusal
    return found[0], found[1]


def _rule(index: DefUse, node: Node) -> AxisRule:
    rule = index.rule(node)
    if isinstance(rule, Refusal) or len(node.outputs) != 1 or node.op == "constant":
        raise Refusal
    return rule


def _producer(index: DefUse, region: PairRegion, tensor: Tensor) -> list[Tensor]:
    """Add the producer of `tensor` as a member; return its new operands with both axes."""
    node = index.producer.get(tensor)
    if node is None or tensor in index.outputs or tensor.dtype.startswith("complex"):
        raise Refusal
    rule = _rule(index, node)
    names = _names(rule.results[0], region.axes[tensor])
    region.members[node] = None
    return _operands(region, node, rule, names)


def _operands(
    region: PairRegion, node: Node, rule: AxisRule, names: tuple[str, str]
) -> list[Tensor]:
    new: list[Tensor] = []
    for k, tensor in enumerate(node.inputs):
        found = [rule.operand_axis(k, name) for name in names]
        if any(hit is not None and hit[1].block != 1 for hit in found):
            raise Refusal
        at = sorted(hit[0] for hit in found if hit is not None)
        if len(at) == 2:
            new += _join(region, tensor, (at[0], at[1]))
    return new


def _join(region: PairRegion, tensor: Tensor, pair: Pair) -> list[Tensor]:
    if tensor not in region.axes:
        region.axes[tensor] = pair
        return [tensor]
    if region.axes[tensor] != pair:
        raise Refusal
    return []


def _reader(
    index: DefUse, region: PairRegion, tensor: Tensor, node: Node, position: int
) -> list[Tensor]:
    """Let a consumer join, as a member or as a contraction; return its new tensors."""
    if node in region.members or node in region.contractions:
        return []
    rule = _rule(index, node)
    axes = rule.operands[position]
    if axes is None:
        raise Refusal
    names = _names(axes, region.axes[tensor])
    kept = [rule.result_axis(0, name) for name in names]
    if any(hit is not None and hit[1].block != 1 for hit in kept):
        raise Refusal
    at = sorted(hit[0] for hit in kept if hit is not None)
    if len(at) == 2:
        return _join(region, node.output, (at[0], at[1]))
    if any(rule.combine[name] != "add" for name, hit in zip(names, kept, strict=True) if not hit):
        raise Refusal
    if node.output.dtype.startswith("complex"):
        raise Refusal
    region.contractions[node] = None
    return _operands(region, node, rule, names)


def _check(index: DefUse, region: PairRegion) -> None:
    """Refuse a region in which a tensor is read other than along its two axes."""
    if any(node in region.members for node in region.contractions):
        raise Refusal
    for node in (*region.members, *region.contractions):
        rule = _rule(index, node)
        names = region.labels(rule, node)
        for k, tensor in enumerate(node.inputs):
            found = {name for name in names if rule.operand_axis(k, name) is not None}
            if (tensor in region.axes) != (len(found) == 2):
                raise Refusal
            if node.op in EQUALITY and tensor not in region.axes and tensor.size > 1:
                raise Refusal  # equal bits are not certain if the other operand is made elsewhere


def _number_stages(index: DefUse, region: PairRegion) -> None:
    """Number the stages: a contraction comes one after those that its operands depend on.

    Stateful nodes stay in order, so that a read of a variable waits for its assignments.
    """
    level: dict[Tensor, int] = {}
    state = 0
    for node in index.graph.nodes:
        number = max((level.get(tensor, 0) for tensor in node.inputs), default=0)
        if node.stateful:
            number = state = max(number, state)
        if node in region.contractions:
            region.stage[node] = number
            number += 1
        level.update(dict.fromkeys(node.outputs, number))
