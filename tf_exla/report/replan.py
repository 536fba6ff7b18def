"""Plan a program again for other limits: what a report keeps for that, and the curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_exla.errors import MemoryLimitError
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.op_set import OpSet
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.report.curve import Curve
from tf_exla.report.curve_data import CurvePoint


@dataclass(frozen=True)
class Replan:
    """A captured program and its options, with shapes and small constants but no user tensors."""

    graph: Graph
    ops: OpSet
    options: Options
    function: str
    device: str

    def within(self, limit: int) -> Plan:
        """Return the plan within a limit in bytes. Raises `MemoryLimitError` if there is none."""
        return optimize_graph(
            self.graph, self.ops, limit=limit, options=self.options, function=self.function
        )

    def curve(self, count: int) -> Curve:
        """Plan for `count` limits, in geometric steps up to the peak of the original.

        Raises ValueError for fewer than two.
        """
        if count < 2:
            raise ValueError(f"a curve has two points at least, got {count}")
        smallest = self.smallest_limit()
        first = self.within(smallest)
        points: list[CurvePoint] = []
        for limit in _steps(smallest, first.projected_peak_before, count):
            plan = self.within(limit) if points else first
            points.append(self._point(limit, plan, points[-1] if points else None))
        return Curve(
            function=self.function,
            device=self.device,
            stock_peak=first.projected_peak_before,
            stock_seconds=self._seconds(self.graph),
            points=tuple(points),
        )

    def smallest_limit(self) -> int:
        """Return the smallest limit in bytes that works."""
        try:
            return self.within(1).projected_peak
        except MemoryLimitError as error:
            return error.smallest_limit

    def _point(self, limit: int, plan: Plan, before: CurvePoint | None) -> CurvePoint:
        """Return the point of a plan, or that of the plan before it if that is no slower."""
        seconds = self._seconds(plan.graph)
        if before is not None and before.seconds <= seconds:
            return CurvePoint(limit, before.projected_peak, before.seconds, before.loops)
        return CurvePoint(limit, plan.projected_peak, seconds, _loops(plan.graph))

    def _seconds(self, graph: Graph) -> float:
        return graph_seconds(self.ops, graph, promises=False)


def _loops(graph: Graph) -> int:
    """Count loops over chunks, nested loops included; a smaller last chunk is not counted."""
    return sum(
        1 + _loops(node.body)
        if isinstance(node, Loop)
        else sum(_loops(s) for _, s in node.subgraphs)
        for node in graph.nodes
    )


def _steps(least: int, most: int, count: int) -> Iterator[int]:
    """Yield limits from `least` to `most`; only one if splitting saves nothing."""
    yield least
    for k in range(1, count - 1):
        limit = round(least * (most / least) ** (k / (count - 1)))
        if least < limit < most:
            yield limit
    if least < most:
        yield most
