"""Comparisons of recomputed numbers with completed results.

The gradient of a maximum searches for the numbers that are equal to it. If one loop completes the
maximum and a later loop recomputes the numbers, they must be the same to the last bit. A kernel
makes the same numbers from the same operands in the same shapes, but not in others: products and
sums of another size add in another order, and the ends of a row are not computed by vector
instructions. So the loops of such a region are *exact*: they share one chunk size, are not split
again, and no late pass changes their bodies.
"""

from __future__ import annotations

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.traverse import walk_node
from tf_exla.split.loops.stages import Stage, Stages
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.origins import CHOSEN, NUMBER, is_test, least_level, level_after
from tf_exla.split.regions.region import RefusedSplit, Region


def compared_again(index: DefUse, stages: Stages) -> list[tuple[Node, Tensor, Stage]]:
    """Return the comparisons of a tensor that a stage recomputes with one that it does not.

    Each is (comparison, recomputed tensor, stage). The other operand was completed by an earlier
    loop, or is a small tensor saved from that loop's chunks. Comparisons of order (`<`, `>=`) are
    included only if the other operand was chosen from the region's numbers: their maximum, or the
    least of the k largest.
    """
    region = stages.region
    found = []
    for stage in stages.stages:
        if not any(map(is_test, stage.nodes)):
            continue
        again: set[Tensor] = set()
        recomputed = set(stage.recomputed)
        here = {tensor for node in stage.nodes for tensor in node.outputs}
        for node in stage.nodes:
            inside = [
                tensor
                for k, tensor in enumerate(node.inputs)
                if tensor in here and region.inside(node, k)
            ]
            affected = [tensor for tensor in inside if tensor in again]
            if node in recomputed or affected:
                again.update(node.outputs)
            if not affected or not is_test(node):
                continue
            others = [
                tensor
                for tensor in node.inputs
                if tensor not in inside
                or any(_meets_completed(index, stage, one, tensor) for one in affected)
            ]
            if not others:
                continue
            if least_level(node) < CHOSEN or any(_is_chosen(index, region, t) for t in others):
                found.append((node, affected[0], stage))
    return found


def _meets_completed(index: DefUse, stage: Stage, own: Tensor, other: Tensor) -> bool:
    """Return whether `other` depends on completed instances of nodes that `own` recomputes.

    A chunk of rows taken from the maxima of segments does: it carries the axis, but its numbers are
    those of an earlier stage. A tensor that depends on both instances, such as
    `maximum(own, completed)`, does not.
    """
    if own is other:
        return False
    here, recomputed = set(stage.nodes), set(stage.recomputed)
    again, _ = _makers(index, here, own)
    beside, completed = _makers(index, here, other)
    return not completed.isdisjoint((again - beside) & recomputed)


def _makers(index: DefUse, here: set[Node], tensor: Tensor) -> tuple[set[Node], set[Node]]:
    """Return the nodes that `tensor` depends on within a stage, and those outside the stage.

    `here`: the nodes of the stage. A node can be in both sets, since a stage recomputes nodes whose
    results were also completed before.
    """
    inside: set[Node] = set()
    outside: set[Node] = set()
    work = [(index.producer.get(tensor), True)]
    while work:
        node, is_inside = work.pop()
        if node is None:
            continue
        is_inside = is_inside and node in here
        seen = inside if is_inside else outside
        if node not in seen:
            seen.add(node)
            work += [(index.producer.get(operand), is_inside) for operand in node.inputs]
    return inside, outside


def _is_chosen(index: DefUse, region: Region, tensor: Tensor) -> bool:
    """Return whether a tensor is a number chosen from the region's numbers, such as a maximum."""
    work, seen = [tensor], {tensor}
    while work:
        node = index.producer.get(work.pop())
        if node is None:
            continue
        if node in region.members:
            if level_after(index.ops, node, NUMBER) == CHOSEN:
                return True
            if level_after(index.ops, node, CHOSEN) < CHOSEN:
                continue  # a sum of chosen numbers was not chosen
        work += [one for one in node.inputs if one not in seen]
        seen.update(node.inputs)
    return False


def unrepeatable(index: DefUse, stages: Stages) -> RefusedSplit | None:
    """Return a refusal if a comparison needs equal bits from a kernel that may not repeat them.

    None if all comparisons are safe.
    """
    region = stages.region
    for node, tensor, stage in compared_again(index, stages):
        maker = _unrepeatable(index, region, tensor, stage)
        if maker is not None:
            reason = f"it is compared for equality there, and {maker.op} need not give it twice"
            return RefusedSplit(tensor, region.slots[tensor].axis, node, reason)
    return None


def _unrepeatable(index: DefUse, region: Region, tensor: Tensor, stage: Stage) -> Node | None:
    """Return a node of the stage that `tensor` depends on and whose results may not repeat."""
    work, members = [index.producer[tensor]], set(stage.nodes)
    seen: set[Node] = set()
    while work:
        node = work.pop()
        if node in seen or node not in members:
            continue
        seen.add(node)
        if not all(map(index.ops.repeats, walk_node(node))):
            return node
        work += [index.producer[t] for k, t in enumerate(node.inputs) if region.inside(node, k)]
    return None
