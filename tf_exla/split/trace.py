"""The trace of a search: what each step did, its savings and costs, and its alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_exla.byte_size import format_bytes
from tf_exla.ir.graph import Graph
from tf_exla.model.cost import graph_seconds
from tf_exla.model.projection import Projector
from tf_exla.split.candidate import Candidate, fixes_much
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.chunks import has_loops


@dataclass(frozen=True, slots=True)
class Alternative:
    """A move that a step could make; `reason`: why it was not chosen, empty if it was."""

    move: str
    working_set: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: bytes and estimated seconds of the program before and after it.

    `alternatives`: the moves that it was chosen from, if the search was traced.
    """

    move: str
    working_set_before: int
    working_set: int
    seconds_before: float
    seconds: float
    alternatives: tuple[Alternative, ...] = ()


class Trace:
    """A record of the steps of one search; empty unless it is `enabled`.

    Consecutive splits of equal parts are one step, and bytes and seconds are estimated once for it.
    """

    def __init__(self, projector: Projector, enabled: bool = True) -> None:
        self.projector = projector
        self.enabled = enabled
        self._steps: list[Step] = []
        self._last: _Taken | None = None

    def take(
        self, move: str, before: Graph, after: Graph, alternatives: Sequence[Alternative] = ()
    ) -> None:
        """Note the step that turned `before` into `after`."""
        if self.enabled:
            self._end()
            self._last = _Taken(move, before, after, tuple(alternatives))

    def split(
        self, best: Candidate, before: Graph, alternatives: Sequence[Alternative] = ()
    ) -> None:
        """Note that a candidate was chosen."""
        if self.enabled:
            self.take(describe(best), before, best.graph, alternatives)

    def again(self, after: Graph) -> None:
        """Note that the last step was repeated for an equal part."""
        if self._last is not None:
            self._last = replace(self._last, after=after, count=self._last.count + 1)

    def steps(self) -> tuple[Step, ...]:
        """Return all steps so far."""
        self._end()
        return tuple(self._steps)

    def _end(self) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        projector = self.projector
        self._steps.append(
            Step(
                last.move + (f", {last.count} equal parts" if last.count > 1 else ""),
                projector.working_set(last.before),
                projector.working_set(last.after),
                graph_seconds(projector.ops, last.before),
                graph_seconds(projector.ops, last.after),
                last.alternatives,
            )
        )


@dataclass(frozen=True)
class _Taken:
    move: str
    before: Graph
    after: Graph
    alternatives: tuple[Alternative, ...]
    count: int = 1


def describe(one: Candidate) -> str:
    """Return what a candidate splits, in words."""
    loops = one.own_loops()
    what = "split" if one.stages is not None else "symmetric tiles of"
    axes = ", ".join(dict.fromkeys(loop.axis for loop in loops if loop.axis))
    inner = ", in tiles" if any(map(has_loops, loops)) else ""
    count = "1 loop" if len(loops) == 1 else f"{len(loops)} loops"
    return f"{what} {axes or 'a region'} ({count}{inner})"


def compare(
    context: SearchContext, found: Sequence[Candidate], best: Candidate
) -> list[Alternative]:
    """Return the alternatives of a step, with the reasons why the others were not chosen."""
    return [
        Alternative(
            describe(one),
            one.peak,
            one.seconds,
            "" if one is best else _reason(context, one, best),
        )
        for one in found
    ]


def _reason(context: SearchContext, one: Candidate, best: Candidate) -> str:
    if best.peak <= context.budget:
        if one.peak > context.budget:
            return f"it needs more than {format_bytes(context.budget)}"
        return f"it is slower than {best.seconds:.3g} s"
    if fixes_much(context, one) and not fixes_much(context, best):
        return "it concatenates a large tensor, which is never split again"
    if one.peak > best.peak:
        return "its peak is higher"
    return "its loops need more"
