"""In cache: a program that holds the limit as it is, split for speed alone.

A tensor larger than the cache is written to memory and read again by each node, while chunks stay
in cache, are fused by XLA, and make use of symmetry. The search takes a few milliseconds a node: it
must be worth that, within `CALLS` calls of the program.
"""

from __future__ import annotations

import dataclasses

from tf_exla.cost import CALLS, node_seconds
from tf_exla.graph import Graph, Loop
from tf_exla.memory import Projector
from tf_exla.options import Options
from tf_exla.passes.splitting.search import split

GAIN = 0.75
"""Of the time that is estimated: a program that fits is split only where so much is promised."""
SEARCH = 3e-3
"""Seconds that a search takes for each node of a program."""


def split_in_cache(
    projector: Projector, graph: Graph, budget: int, options: Options
) -> Graph | None:
    """Split the tensors of a graph that are larger than the cache; None if that cannot pay."""
    size = options.tensor_size_threshold or 2 * options.chunk_bytes
    large = (
        node
        for node in graph.nodes
        if not isinstance(node, Loop) and any(tensor.nbytes > size for tensor in node.outputs)
    )
    seconds = sum(node_seconds(projector.ops, node) for node in large)
    if CALLS * (1 - GAIN) * seconds < SEARCH * len(graph.nodes):
        return None
    budget = min(budget, projector.working_set(graph))
    forced = dataclasses.replace(options, tensor_size_threshold=size)
    made = split(projector, graph, budget, forced).graph
    return made if projector.working_set(made) <= budget else None
