"""A plan: the rewritten graph with its projections and a record of how it was found."""

from __future__ import annotations

from dataclasses import dataclass

from tf_exla.ir.graph import Graph
from tf_exla.model.options import Options
from tf_exla.model.projection import Projection
from tf_exla.rewrite import Application
from tf_exla.split.regions.region import RefusedSplit
from tf_exla.split.trace import Step


@dataclass(frozen=True)
class Plan:
    """A planned program. Sizes are in bytes; `*_before`: of the original order, unsplit.

    `resident`: bytes that exist before a call; `working_set`: what the call allocates.
    `steps`: the form of the program, its splits and late passes, with what each saved and cost.
    `for_speed`: the limit requires fewer loops, which would be slower. `failure`: why the graph is
    the original, and nothing was projected; empty if a plan was made. `options`: those that the
    plan was made with; None if none was made. `uncounted`: the warnings of results without a bound.
    """

    graph: Graph
    limit: int
    resident: int
    working_set: int
    working_set_before: int
    original: Graph
    projection: Projection
    projection_before: Projection
    refusals: tuple[RefusedSplit, ...]
    seconds: float
    applications: tuple[Application, ...] = ()
    for_speed: bool = False
    steps: tuple[Step, ...] = ()
    failure: str = ""
    options: Options | None = None
    uncounted: tuple[str, ...] = ()

    @property
    def projected_peak(self) -> int:
        return self.resident + self.working_set

    @property
    def projected_peak_before(self) -> int:
        return self.resident + self.working_set_before
