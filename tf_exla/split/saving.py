"""Large tensors that later stages read are kept: concatenated instead of recomputed."""

from __future__ import annotations

import math
from collections.abc import Hashable

from tf_exla.ir.graph import Loop, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.model.cost import node_seconds
from tf_exla.model.settings import SETTINGS
from tf_exla.split.candidate import Candidate
from tf_exla.split.candidates import evaluate
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.stages import Stages, arrange


def keep(context: SearchContext, best: Candidate) -> Candidate:
    """Keep large tensors between stages if there is room and it saves a twentieth of the time.

    Return the candidate whose loops keep them, or `best`.
    """
    projector, budget = context.projector, context.budget
    if best.own > budget or best.stages is None:
        return best
    region, again = best.stages.region, best.stages.recomputed_large(best.is_large)
    if not again or most_saved(context, best) < (1 - SETTINGS.margin) * best.seconds:
        return best

    def stages_with(tensors: frozenset[Tensor]) -> Stages:
        return arrange(best.index, region, best.is_large, tensors)

    def trial(tensors: frozenset[Tensor]) -> Candidate | None:
        projector.effort.tick()
        if sum(tensor.nbytes for tensor in tensors) > budget:
            return None
        made = evaluate(context, best.index, stages_with(tensors), best.is_large)
        return made if _holds(made, best, budget) else None

    def seconds_to_make(tensor: Tensor) -> float:
        return node_seconds(projector.ops, best.index.producer[tensor])

    # First try each tensor alone, and only one of several that are alike: those of equal shape and
    # about equal cost. Then combine those that helped, the largest saving first.
    dear = sorted(again, key=seconds_to_make, reverse=True)[: SETTINGS.saves_tried]
    # Smaller differences do not matter: over all tried tensors they add up to less than a step.
    little = (1 - SETTINGS.margin) * best.seconds / SETTINGS.saves_tried
    kinds: dict[Hashable, list[Tensor]] = {}
    for tensor in dear:
        seconds, _ = _recomputation(projector.ops, stages_with(frozenset({tensor})))
        kinds.setdefault((tensor.axes, tensor.dtype, round(seconds / little)), []).append(tensor)
    kept: frozenset[Tensor] = frozenset()
    chosen = best
    with projector.effort.for_speed():
        alone = ((trial(frozenset(alike[:1])), alike) for alike in kinds.values())
        saving = [(made.seconds, alike) for made, alike in alone if made is not None]
        for seconds, alike in sorted(saving, key=lambda one: one[0]):
            if seconds >= best.seconds:
                break
            for tensor in alike:
                made = trial(kept | {tensor})
                if made is None or made.seconds >= chosen.seconds:
                    break
                chosen, kept = made, kept | {tensor}
    return chosen if chosen.seconds <= SETTINGS.margin * best.seconds else best


def _recomputation(ops: OpSet, stages: Stages) -> tuple[float, int]:
    """Return the seconds that all recomputed nodes take on whole tensors, and their number."""
    again = [node for stage in stages.stages for node in stage.recomputed]
    return math.fsum(node_seconds(ops, node) for node in again), len(again)


def most_saved(context: SearchContext, best: Candidate) -> float:
    """Return an upper bound of the seconds that `keep` saves: those of all recomputation.

    The estimate is for nodes that compute whole tensors and read them from memory, plus a launch of
    each node for each chunk.
    """
    if best.own > context.budget or best.stages is None:
        return 0.0
    own = {tensor for stage in best.stages.stages for tensor in stage.results}
    loops = [node for node in best.graph.nodes if isinstance(node, Loop) and own & {*node.outputs}]
    runs = max((loop.iterations for loop in loops), default=1)
    ops = context.projector.ops
    seconds, nodes = _recomputation(ops, best.stages)
    return seconds + runs * ops.rates().launch * nodes


def _holds(made: Candidate, best: Candidate, budget: int) -> bool:
    """Return whether `made` is within the budget, or only the rest of the program exceeds it."""
    return made.peak <= budget or (made.own <= budget and made.high <= best.high)
