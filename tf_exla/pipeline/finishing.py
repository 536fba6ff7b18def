"""Finishing: late passes over the split program, loop bodies included.

They replace ops by nodes that run faster but could not be split any more, so they come last. A loop
that gets another chunk is cut from its template again, and finished again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

    In a body, a tensor has fewer readers than in the program, so more rewrites apply. If the
    program was split without rewrites, since one of them tied two axes together, those that apply
    within a chunk are applied here.
    """
    return _Bodies(projector, options).graph(graph)


class _Bodies:
    """Rewrites bodies.

    It is a class, since nested functions that call each other are a reference cycle, which would
    keep the projector alive.
    """

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
OPTIONAL: tuple[LatePass, ...] = (_run_top_k, _expand, _compile)
"""Late passes that may need more memory, so that they are left out if the budget has no room."""


def finish(projector: Projector, graph: Graph, budget: int, options: Options) -> Graph:
    """Apply the late passes, with smaller chunks or without some passes if `budget` requires it.

    Of the selections of passes within the budget, the fastest is taken. Smaller chunks must not
    cost more time than the passes save, unless the user forces compilation by XLA
    (`jit_compile=True`). No late pass is applied to a graph that is above the budget already.
    """
    plain = write_out(graph, projector.ops)
    if projector.working_set(graph) > budget:
        return plain
    finishing = _Finishing(projector, budget, options)
    all_passes, changed = finishing.apply(graph, frozenset())
    if projector.working_set(all_passes) <= budget:
        return all_passes
    seconds = graph_seconds(projector.ops, plain, promises=False)
    for left_out in finishing.selections(graph, all_passes, changed):
        made = finishing.fit(graph, left_out, seconds)
        if made is not None:
            return made
    return plain


@dataclass(frozen=True)
class _Finishing:
    """Applies late passes to one program."""

    projector: Projector
    budget: int
    options: Options

    def apply(
        self, graph: Graph, left_out: frozenset[LatePass]
    ) -> tuple[Graph, frozenset[LatePass]]:
        """Return the graph after all passes but `left_out`, and the passes that changed it."""
        finished, changed = write_out(graph, self.projector.ops), set()
        for late in LATE_PASSES:
            if late in left_out:
                continue
            made = late(self.projector, finished, self.options)
            if made is not finished:
                changed.add(late)
            finished = write_out(made, self.projector.ops)
        return finished, frozenset(changed)

    def selections(
        self, graph: Graph, finished: Graph, changed: frozenset[LatePass]
    ) -> list[frozenset[LatePass]]:
        """Return the sets of passes that can be left out, that of the fastest program first.

        `finished`, `changed`: the program with all passes, and the passes that changed it.
        """
        preferences: dict[frozenset[LatePass], tuple[bool, float]] = {}
        queue = [(frozenset[LatePass](), finished, changed)]
        for left_out, finished, changed in queue:
            unforced = self.options.jit_compile is True and _compile in left_out
            taken = graph_seconds(self.projector.ops, finished, promises=False)
            preferences[left_out] = unforced, taken
            fewer = (left_out | {late} for late in OPTIONAL if late in changed)
            known = {*preferences, *(one for one, *_ in queue)}
            queue += [(each, *self.apply(graph, each)) for each in fewer if each not in known]
        return sorted(preferences, key=preferences.__getitem__)

    def fit(self, graph: Graph, left_out: frozenset[LatePass], most: float) -> Graph | None:
        """Return the program without some passes, with smaller chunks if the budget requires it.

        None if no chunks are within the budget, or if they take more than `most` seconds.
        """
        split, target = graph, self.budget
        for _ in range(SETTINGS.tries):
            finished, _changed = self.apply(split, left_out)
            limited = split is not graph and not self.options.jit_compile
            if limited and graph_seconds(self.projector.ops, finished, promises=False) > most:
                return None
            needed = self.projector.working_set(finished)
            if needed <= self.budget:
                return finished
            target = int(SETTINGS.closer * target * self.budget / needed)
            split = fit_loops(self.projector, graph, target, self.options)
        return None
