"""The fallback when tf_exla itself fails: the original function runs, with a warning.

A refused limit is a result, not a failure: `MemoryLimitError` and `UnboundedMemoryError` always
reach the caller. So do errors of the user's own code, which runs only while a function is traced
and when its ops run. Neither is guarded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_exla.caller import warn
from tf_exla.errors import MemoryLimitError, NotOptimizedWarning, UnboundedMemoryError
from tf_exla.ir.graph import Graph
from tf_exla.model.lifetimes import Lifetimes
from tf_exla.model.projection import Projection
from tf_exla.pipeline.plan import Plan


class Listener:
    """A listener to plans and failures of functions; this one warns of failures."""

    def failed(self, function: str, reason: str) -> None:
        """Warn that the original function runs."""
        message = f"{function} runs as it was, and no memory limit holds for it: {reason}"
        warn(message, NotOptimizedWarning)

    def planned(self, function: str, plan: Plan) -> None:
        """Receive a plan that is within the limit."""


@dataclass
class Guard:
    """The handler of failures of one optimized function.

    `strict`: failures are raised. Otherwise `listener` receives the first failure of each function
    name; a program and its gradient have different names. `where`: where the function is defined.
    """

    strict: bool = False
    listener: Listener = field(default_factory=Listener)
    where: str = ""
    _told: set[str] = field(default_factory=set)

    def take(self, function: str, error: Exception) -> None:
        """Raise the handled `error` if it is an answer or `strict` is set, else report it."""
        if self.strict or isinstance(error, (MemoryLimitError, UnboundedMemoryError)):
            raise error
        if function not in self._told:
            self._told.add(function)
            self.listener.failed(self.located(function), describe(error))

    def located(self, function: str) -> str:
        """Return the name of the function or of its gradient, with where it is defined."""
        return f"{function} ({self.where})" if self.where else function


def describe(error: Exception) -> str:
    """Return a description of a failure and how to report it."""
    lines = str(error).splitlines()
    what = f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
    return (
        f"{what}. If this is a defect of tf_exla, please report it with the traceback that "
        "optimize(..., strict=True), or `python -m tf_exla run --strict`, raises"
    )


def unplanned(graph: Graph, limit: int, error: Exception) -> Plan:
    """Return a plan that leaves a graph as it is, without a projection."""
    nothing = Projection(0, (), (), 0, Lifetimes((), 0, ()))
    return Plan(
        graph=graph,
        limit=limit,
        resident=0,
        working_set=0,
        working_set_before=0,
        original=graph,
        projection=nothing,
        projection_before=nothing,
        refusals=(),
        seconds=0.0,
        failure=describe(error),
    )
