"""Idle tensors are dropped and computed again if that is cheap for the bytes that it frees.

At the peak of a plan, a tensor is idle if the running node does not read it. The cheapest are
results of pointwise ops whose operands are alive anyway, such as the normalized input of a layer,
or its activation.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_exla.ir.graph import Graph, Tensor
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.rematerialization.timeline import Rerun, Timeline


@dataclass(frozen=True)
class _Choice:
    """One tensor to drop (`holder`), its rerun, and the bytes that this frees at the peak."""

    holder: Tensor
    rerun: Rerun
    bytes: int

    @property
    def seconds_per_byte(self) -> float:
        return self.rerun.seconds / self.bytes


def drop_idle(graph: Graph, projector: Projector, budget: int, most: float) -> Graph:
    """Return a graph within the budget that computes idle tensors again, else the lowest found.

    `most`: the estimated seconds that these computations may take.
    """
    excess = projector.working_set(graph) - budget
    most_per_byte = most / max(excess, 1)
    while excess > 0:
        timeline = Timeline(graph, projector.ops, projector.project(graph).peak_step)
        chosen = _chosen(timeline, excess, most_per_byte)
        most -= sum(one.rerun.seconds for one in chosen)
        made = timeline.with_reruns(one.rerun for one in chosen)
        before, excess = excess, projector.working_set(made) - budget
        if most < 0 or excess >= before:
            return graph
        graph = made
        if excess > SETTINGS.margin * before:
            break
    return graph


def _chosen(timeline: Timeline, excess: int, most_per_byte: float) -> list[_Choice]:
    """Return the cheapest tensors to drop, until they free `excess` bytes."""
    found = [_choice(timeline, holder, most_per_byte * holder.nbytes) for holder in timeline.idle]
    useful = [one for one in found if one is not None and one.seconds_per_byte <= most_per_byte]
    chosen: list[_Choice] = []
    dropped: set[Tensor] = set()
    read: set[Tensor] = set()
    for one in sorted(useful, key=lambda one: one.seconds_per_byte):
        reads = {timeline.holder(tensor) for tensor in one.rerun.outside}
        if excess <= 0 or one.holder in read or not dropped.isdisjoint(reads):
            continue
        chosen.append(one)
        dropped.add(one.holder)
        read |= reads
        excess -= one.bytes
    return chosen


def _choice(timeline: Timeline, holder: Tensor, most: float) -> _Choice | None:
    def is_read(tensor: Tensor) -> bool:
        if tensor.nbytes * SETTINGS.small_beside <= holder.nbytes:
            return True
        return timeline.is_there(tensor) and timeline.holder(tensor) is not holder

    rerun = timeline.rerun(timeline.idle[holder], is_read, most)
    if rerun is None:
        return None
    revived = {timeline.holder(one) for one in rerun.outside if not timeline.is_there(one)}
    freed = holder.nbytes - sum(tensor.nbytes for tensor in revived)
    return _Choice(holder, rerun, freed) if freed > 0 else None
