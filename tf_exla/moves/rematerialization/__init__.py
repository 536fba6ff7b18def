"""Rematerialization: tensors that wait for a late reader are dropped, and computed again for it.

The gradient of a chain of ops reads what each op computed, in reverse order, so all of it is alive
when the gradient begins. A loop over chunks lowers that peak only if all ops share an axis. This
move needs no common axis. It costs at most one more run of the chain for each level of checkpoints.
"""

from __future__ import annotations

from tf_exla.ir.graph import Graph
from tf_exla.model.cost import graph_seconds
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.rematerialization.checkpoints import keep_checkpoints
from tf_exla.moves.rematerialization.idle import drop_idle
from tf_exla.moves.rematerialization.running_sums import add_at_once
from tf_exla.moves.rematerialization.timeline import own_bytes


def rematerialize(graph: Graph, projector: Projector, budget: int) -> Graph:
    """Return the fastest graph found within `budget` bytes, else the one that needs the least.

    It computes some of its tensors again. The numbers are the same, except for sums of many
    tensors, which are added in the order in which these are computed.
    """
    ops = projector.ops
    lowest, found = graph, []
    for start in dict.fromkeys((graph, add_at_once(graph, ops))):
        before = graph_seconds(ops, start)
        found.append(keep_checkpoints(start, projector, budget))
        lowest = min(lowest, found[-1], key=projector.working_set)
        most = (SETTINGS.copied_work - 1) * before
        if projector.working_set(found[-1]) <= budget:
            most = min(most, graph_seconds(ops, found[-1]) - before)
        found.append(drop_idle(start, projector, budget, most))
    holding = [one for one in (graph, *found) if projector.working_set(one) <= budget]
    if holding:
        return min(holding, key=lambda one: graph_seconds(ops, one))
    # The result of `drop_idle` depends on the budget. The smallest limit that is reported must be
    # feasible when it is given as a limit, so it is not taken here.
    return lowest


def can_hold(graph: Graph, projector: Projector, budget: int) -> bool:
    """Return whether each node alone, with its operands and results, is within the budget."""
    graph = add_at_once(graph, projector.ops)
    least = max(own_bytes(graph, projector), default=0)
    return least + projector.overhead(graph) <= budget
