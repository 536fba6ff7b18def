"""Splits of programs that fit the limit, only for speed, so that chunks stay in the cache.

A tensor larger than the cache is written to memory, and each consumer reads it from there. Chunks
stay in the cache, XLA fuses their nodes, and symmetric tensors are computed by half.
"""

from __future__ import annotations

import dataclasses

from tf_exla.ir.graph import Graph
from tf_exla.ir.traverse import count_nodes
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.finishing import finish
from tf_exla.split.for_speed import slow_seconds, split_for_speed
from tf_exla.split.search import Splitting


def split_in_cache(
    projector: Projector, whole: Graph, finished: Graph, budget: int, options: Options
) -> Splitting | None:
    """Return a faster split of a program within the budget; None if there is none.

    `whole`: the program as the limit requires it, perhaps unsplit. `finished`: the same after the
    late passes. The returned graph is after the late passes as well.
    """
    if max(map(projector.working_set, (whole, finished))) > budget:
        return None
    spent = slow_seconds(projector, whole, options)
    search = projector.ops.rates().search_node * count_nodes(whole)
    if SETTINGS.calls * (1 - SETTINGS.margin_whole) * spent < search:
        return None
    found = split_for_speed(projector, whole, budget, options)
    if found.graph is whole:
        return None
    made = finish(projector, found.graph, budget, options)
    fast, slow = (graph_seconds(projector.ops, one, promises=False) for one in (made, finished))
    if projector.working_set(made) > budget or fast > SETTINGS.margin_whole * slow:
        return None
    return dataclasses.replace(found, graph=made)
