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
    """A planned program. Sizes are in bytes; `*_before`: of the original program, unsplit.

    `resident`: bytes that exist before a call. `working_set`: bytes that the call allocates.
    `seconds`: the time that planning took. `refusals`: why some tensors could not be split.
    `applications`: the rewrites that were applied. `steps`: the form of the program, its splits and
    late passes, with what each saved and cost. `for_speed`: whether the program was split further
    than the limit requires, since that is faster. `failure`: why no plan was made, so that `graph`
    is the original and nothing was projected; else empty. `options`: those of the plan; None if
    none was made. `uncounted`: the warnings about results without a bound.
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
