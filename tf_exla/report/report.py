"""What an optimization did, in numbers and in words."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tf_exla.report.curve import Curve
from tf_exla.report.data import ReportData
from tf_exla.report.summary import format_summary
from tf_exla.report.text import format_details


@dataclass(frozen=True)
class MemoryReport(ReportData):
    """A report that prints, plots and draws itself; its fields are those of `ReportData`.

    As a string it has about ten lines; `details` has all. `again`: the program that `curve` plans
    again, which pickled reports lack.
    """

    # A `Replan` or None. Not typed, since readers of reports from JSON would need types of graphs.
    again: Any = field(default=None, repr=False, compare=False)

    def curve(self, points: int = 8) -> Curve:
        """Return estimated times for limits from the smallest that works to the original's peak.

        Plans again for each limit, and runs nothing. Raises ValueError if the report has no graph
        to plan again, or for fewer than two points.
        """
        if self.again is None:
            raise ValueError(f"{self.function}: the report has no graph to plan again")
        curve: Curve = self.again.curve(points)
        return curve

    def details(self) -> str:
        """Return the long form: tensors, rewrites, steps, loops, and why tensors were not split."""
        return format_details(self)

    def to_dict(self) -> dict[str, object]:
        """Return every field as plain Python values."""
        plain = dataclasses.asdict(dataclasses.replace(self, again=None))
        del plain["again"]
        return plain

    def to_json(self, indent: int | None = 2) -> str:
        """Return every field as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def plot(self, path: str | Path | None = None) -> object:
        """Plot memory over the plan, original against optimized, and return the figure.

        Needs matplotlib. With `path`, the figure is saved there.
        """
        from tf_exla.report.plot import plot_report  # matplotlib

        return plot_report(self, path)

    def draw(self, path: str | Path | None = None, most: int = 40) -> object:
        """Draw the graphs before and after, with the sizes of tensors, and return the figure.

        If a graph has more than `most` nodes, those with the largest tensors are drawn. Needs
        matplotlib and igraph. With `path` (*.svg, *.png, *.pdf), the figure is saved there.
        """
        from tf_exla.report.draw import draw_report  # matplotlib, igraph

        return draw_report(self, path, most)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the report as a page of HTML that needs no network; with `path`, write it there.

        If igraph is installed, the page shows the graphs, which can be moved and zoomed.
        """
        from tf_exla.report.html import format_html  # jinja2

        page = format_html(self)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle: the numbers without the graph to plan again."""
        return {**self.__dict__, "again": None}

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        from tf_exla.report.html import in_frame  # jinja2

        return in_frame(self.to_html())

    def __str__(self) -> str:
        return format_summary(self)
