"""The report as one self-contained page of HTML: no network, a few lines of script."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from tf_exla.byte_size import format_bytes
from tf_exla.report.collapse import MANY, collapsed
from tf_exla.report.data import ReportData, TimelinePoint
from tf_exla.report.draw import Drawing, label, loop_colour, loop_label, visible
from tf_exla.report.graph import GraphNode
from tf_exla.report.text import format_shape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 320, 70, 990, 12, 284
"""Of the memory chart, in units of the drawing: its outer size and its inner box."""
PLACE = (150, 74)
"""Width and height that a node of a graph takes, in units of the drawing."""
PANEL = 560
"""The height of a graph's window."""
NODES = 30
"""Nodes that are drawn, those with the largest tensors; twice as many with the bodies of loops."""
DECADES = 4
"""Powers of ten from the bottom to the top of the memory chart."""


def format_html(report: ReportData) -> str:
    """Return the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["bytes"] = format_bytes
    environment.filters["shape"] = lambda one: format_shape(one.shape, one.dtype)
    template = files("tf_exla.report").joinpath("report.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        report=report,
        rewrites=[one for one in report.rewrites if one.rewrites != "cleanup"],
        chart=_chart(report),
        graphs=_graphs(report),
        loop_colours=[
            {"colour": loop_colour(k), "label": loop_label(k, loop)}
            for k, loop in enumerate(report.loops)
        ],
    )


def in_frame(page: str) -> str:
    """Return a page for a notebook, in a frame that keeps its styles and names inside."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" width="100%" height="720" frameborder="0"></iframe>'
    )


def _chart(report: ReportData) -> dict[str, Any]:
    lines = [
        ("original", "#888888", report.timeline_before),
        ("plan", "#1f6fb4", report.timeline),
    ]
    heights = [point.bytes + report.resident for _, _, points in lines for point in points]
    most = max([report.limit, *heights])
    top = math.log10(most) + 0.1
    bottom = top - DECADES

    def y(size: float) -> float:
        share = (math.log10(max(size, 1)) - bottom) / (top - bottom)
        return round(BOTTOM - max(share, 0.0) * (BOTTOM - TOP), 1)

    series = []
    for name, colour, points in lines:
        line = _outline([y(point.bytes + report.resident) for point in points])
        area = f"{line}V{BOTTOM}H{LEFT}Z" if line else ""
        series.append({"name": name, "colour": colour, "line": line, "area": area})
    ticks = [
        {"y": y(10**power), "label": format_bytes(10**power)}
        for power in range(math.ceil(bottom), math.floor(top) + 1)
    ]
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP,
        "bottom": BOTTOM, "limit": y(report.limit), "ticks": ticks, "series": series,
        "box": {"width": WIDTH, "left": LEFT, "right": RIGHT},
        "data": [
            {"name": name, "points": [_words(point, report.resident) for point in points]}
            for name, _, points in lines
        ],
    }  # fmt: skip


def _outline(heights: Sequence[float]) -> str:
    """Return a path of steps of equal width."""
    if not heights:
        return ""
    step = (RIGHT - LEFT) / len(heights)
    parts = [f"M{LEFT} {heights[0]}"]
    for k, height in enumerate(heights):
        parts.append(f"V{height}H{round(LEFT + (k + 1) * step, 2)}")
    return "".join(parts)


def _words(point: TimelinePoint, resident: int) -> str:
    """Describe a step and the memory that is alive during it."""
    where = f" ({point.source})" if point.source else ""
    lines = [f"{point.op} {point.node}{where}", format_bytes(point.bytes + resident)]
    lines += [f"  {format_bytes(one.bytes)} {one.what}" for one in point.alive]
    return "\n".join(lines)


def _graphs(report: ReportData) -> list[dict[str, Any]]:
    closed = _closed(report)
    drawn = [
        ("original", report.graph_before, NODES),
        ("plan, bodies of loops", report.graph, 2 * NODES),
        ("plan", closed, NODES),
    ]
    if max(len(report.graph_before), len(closed)) > MANY:
        drawn += [
            ("original by name scopes", collapsed(report.graph_before), MANY),
            ("plan by name scopes", collapsed(closed), MANY),
        ]
    try:
        return [
            _graph(title, Drawing(visible(nodes, most), nodes), report.limit)
            for title, nodes, most in drawn
        ]
    except ImportError:
        return []


def _closed(report: ReportData) -> list[GraphNode]:
    """Return the plan's graph, each outermost loop as one node that shows its largest tensor."""
    outermost: list[int] = []  # by loop
    for at, loop in enumerate(report.loops):
        outermost.append(outermost[-1] if loop.depth else at)
    made: list[GraphNode] = []
    place: list[int] = []  # by node of the graph: its position in `made`
    group: dict[int, int] = {}  # by outermost loop: its position in `made`
    for node in report.graph:
        number = None if node.loop is None else outermost[node.loop]
        if number is None or number not in group:
            if number is not None:
                group[number] = len(made)
            place.append(len(made))
            made.append(node)
        else:
            place.append(group[number])
            larger = max(made[place[-1]], node, key=lambda one: one.bytes)
            made[place[-1]] = replace(
                larger,
                inputs=(*made[place[-1]].inputs, *node.inputs),
                output=made[place[-1]].output or node.output,
            )
    # Inputs are still positions in the graph. Edges from a loop to itself are dropped.
    for at, node in enumerate(made):
        inputs = dict.fromkeys(place[k] for k in node.inputs if place[k] != at)
        made[at] = replace(node, inputs=tuple(inputs))
    for outer, at in group.items():
        loop = report.loops[outer]
        title = f"loop {outer}: {loop.iterations} x {loop.chunk}"
        made[at] = replace(made[at], op=title, loop=outer)
    return made


def _graph(title: str, drawing: Drawing, limit: int) -> dict[str, Any]:
    across, down = PLACE

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return round((point[0] - drawing.left) * across, 1), round(point[1] * down, 1)

    boxes = []
    for node, point in zip(drawing.nodes, drawing.places, strict=True):
        x, y = place(point)
        inside = node.loop is not None
        large = node.bytes > limit
        boxes.append(
            {
                "x": x, "y": y, "lines": label(node).split("\n"),
                "title": f"{node.op} {node.name}\n{format_shape(node.shape, node.dtype)}",
                "fill": loop_colour(node.loop or 0) if inside else "#ffffff",
                "stroke": "#cc3333" if large else "#000000" if node.output else "#888888",
                "width": 2 if large or node.output else 1,
            }
        )  # fmt: skip
    routes = []
    for route in drawing.routes:
        points = [place(point) for point in route]
        (x, y), end = points[-1], 22  # the edge of the box that it leads to
        points[-1] = (x, y - end)
        routes.append(" ".join(f"{x},{y}" for x, y in points))
    width, height = drawing.width * across, drawing.height * down
    fit = f"{-across / 2:g} {-down / 2:g} {width:g} {height:g}"
    left = max(width - WIDTH, 0) / 2 - across / 2  # unscaled, the middle of the top
    view = f"{left:g} {-down / 2:g} {min(width, WIDTH):g} {min(height, PANEL):g}"
    return {"title": title, "boxes": boxes, "routes": routes, "fit": fit, "view": view}
