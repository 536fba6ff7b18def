"""Finishing: late passes over the split program, loop bodies included.

They replace ops by nodes that run faster but could not be split any more, so they come last. A loop
that gets another chunk is cut from its template again, and finished again.
"""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.ir.graph import Graph, Loop
from tf_exla.late.bodies import everywhere, inside_of
from tf_exla.late.compiling import compile_loops
from tf_exla.late.expanding import expand
from tf_exla.late.running_top_k import run_top_k
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.blocking import write_out
from tf_exla.rewrite import chosen, rewrite_graph
from tf_exla.split.loops.chunks import fit_loops

LatePass = Callable[[Projector, Graph, Options], Graph]
"""A pass that changes the nodes of a graph and of its sub-graphs, not their interfaces."""


def _run_top_k(projector: Projector, graph: Graph, _: Options) -> Graph:
    return everywhere(graph, lambda sub: run_top_k(sub, projector.ops))


def _expand(projector: Projector, graph: Graph, _: Options) -> Graph:
    return everywhere(graph, lambda sub: expand(sub, projector.ops))


def _rewrite(projector: Projector, graph: Graph, options: Options) -> Graph:
    """Rewrite the bodies of loops, memoized: `finish` tries other late passes on the same bodies.

    In a body, a tensor has fewer readers than in the program. A program that was split without
    rewrites, since one tied two axes together, gets those that stay within a chunk.
    """
    return _Bodies(projector, options).graph(graph)


class _Bodies:
    """Rewrites bodies; functions that call each other would keep the projector alive."""

    def __init__(self, projector: Projector, options: Options) -> None:
        self.projector = projector
        self.asked = options.rewrites
        self.rules = chosen(options.rewrites)

    def graph(self, sub: Graph) -> Graph:
        """Rewrite the bodies of all loops in a graph."""
        nodes = [
            inside_of(node, self.body if isinstance(node, Loop) else self.graph)
            for node in sub.nodes
        ]
        return sub.with_nodes(nodes)

    def body(self, body: Graph) -> Graph:
        """Rewrite the body of a loop, and the loops in it."""
        projector = self.projector
        known = projector.rewritten.get(body)
        if known is None or known[0] is not self.asked:
            made = self.graph(rewrite_graph(body, projector.ops, self.rules).graph)
            known = self.asked, made if made is not body else None
            projector.rewritten[body] = known
        return known[1] or body


def _compile(projector: Projector, graph: Graph, options: Options) -> Graph:
    if options.jit_compile is False:
        return graph
    return compile_loops(graph, projector.ops, forced=options.jit_compile is True)


LATE_PASSES: tuple[LatePass, ...] = (_rewrite, _run_top_k, _expand, _compile)
"""All late passes, in the order in which they are applied."""
LEFT_OUT: tuple[LatePass, ...] = (_run_top_k, _compile, _expand)
"""The order in which they are left out to hold the budget: running top-k needs the most memory."""


def finish(projector: Projector, graph: Graph, budget: int, options: Options) -> Graph:
    """Apply the late passes, with smaller chunks or fewer passes if that is what holds `budget`.

    Smaller chunks must not cost more time than the passes save, unless XLA is forced. A graph that
    is above the budget anyway gets no late pass.
    """
    plain = write_out(graph, projector.ops)
    if projector.working_set(graph) > budget:
        return plain
    seconds = graph_seconds(projector.ops, plain, promises=False)
    changed: set[LatePass] = set()
    for left_out in range(len(LEFT_OUT) + 1):
        if left_out and LEFT_OUT[left_out - 1] not in changed:  # leaving it out changes nothing
            continue
        split, target = graph, budget
        for _ in range(SETTINGS.tries):
            finished = write_out(split, projector.ops)
            for late in LATE_PASSES:
                if late in LEFT_OUT[:left_out]:
                    continue
                made = late(projector, finished, options)
                if made is not finished:
                    changed.add(late)
                finished = write_out(made, projector.ops)
            needed = projector.working_set(finished)
            if needed <= budget:
                slower = graph_seconds(projector.ops, finished, promises=False) > seconds
                if split is graph or options.jit_compile or not slower:
                    return finished
                break
            target = int(SETTINGS.closer * target * budget / needed)
            split = fit_loops(projector, graph, target, options)
    return plain
