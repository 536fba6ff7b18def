"""The report as a picture: the graph before and after, with the sizes of its tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_exla.byte_size import format_bytes
from tf_exla.ir.dtypes import short_dtype
from tf_exla.report.data import LoopEntry, ReportData
from tf_exla.report.graph import INPUT, GraphNode

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Nodes that are never drawn, since they hold no data of the user.
_PLUMBING = frozenset({"constant", "identity", "identity_n", "no_op", "read_variable", "shape"})
_LOOP_COLOURS = ("#cfe2f3", "#fce5cd", "#d9ead3", "#ead1dc", "#fff2cc", "#d0e0e3")
_WIDTH, _HEIGHT = 1.5, 0.8  # inches that a node takes


def draw_report(report: ReportData, path: str | Path | None = None, most: int = 40) -> Figure:
    """Draw both graphs side by side, each with at most the `most` nodes of the largest tensors."""
    from matplotlib.figure import Figure

    sides = [
        (f"original: peak {format_bytes(report.projected_peak_before)}", report.graph_before),
        (f"optimized: peak {format_bytes(report.projected_peak)}", report.graph),
    ]
    drawings = [Drawing(visible(nodes, most), nodes) for _, nodes in sides]
    widths = [drawing.width * _WIDTH for drawing in drawings]
    height = max(drawing.height for drawing in drawings) * _HEIGHT + 1.3
    figure = Figure(figsize=(sum(widths) + 0.5, height), layout="constrained")
    panels = figure.subplots(1, 2, width_ratios=widths, squeeze=False)[0]
    tallest = max(drawing.height for drawing in drawings)
    for axes, (title, _), drawing in zip(panels, sides, drawings, strict=True):
        drawing.draw(axes, report.limit, tallest)
        axes.set_title(title, fontsize=10)
    figure.suptitle(f"{report.function}, limit {format_bytes(report.limit)}", fontsize=11)
    if handles := _legend(report, drawings):
        figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=2)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _legend(report: ReportData, drawings: Sequence[Drawing]) -> list[Any]:
    from matplotlib.patches import Patch

    shown = {node.loop for drawing in drawings for node in drawing.nodes if node.loop is not None}
    handles = [
        Patch(
            facecolor=loop_colour(number),
            edgecolor="0.5",
            label=loop_label(number, loop),
        )
        for number, loop in enumerate(report.loops)
        if number in shown
    ]
    above = any(node.bytes > report.limit for drawing in drawings for node in drawing.nodes)
    if above:
        handles.append(Patch(facecolor="white", edgecolor="C3", label="larger than the limit"))
    return handles


def loop_colour(number: int) -> str:
    """Return the colour of a loop."""
    return _LOOP_COLOURS[number % len(_LOOP_COLOURS)]


def loop_label(number: int, loop: LoopEntry) -> str:
    """Return the description of a loop for a legend."""
    return f"loop {number}: {loop.iterations} chunks of {loop.chunk} of {loop.extent:,}"


def visible(nodes: Sequence[GraphNode], most: int) -> list[int]:
    """Return positions of the nodes to draw: nodes with data, at most `most`, the largest ones.

    Scalars are drawn only if they are results.
    """
    kept = [
        i
        for i, node in enumerate(nodes)
        if node.op not in _PLUMBING and (math.prod(n or 1 for n in node.shape) > 1 or node.output)
    ]
    # Results first, then the largest, then the earliest. Reads of variables are not results here.
    kept.sort(key=lambda i: (not nodes[i].output, -nodes[i].bytes, i))
    return sorted(kept[:most])


class Drawing:
    """A layered layout (Sugiyama) of the visible nodes; edges pass through hidden nodes."""

    def __init__(self, visible: Sequence[int], everything: Sequence[GraphNode]) -> None:
        self.nodes = [everything[i] for i in visible]
        self.places, self.routes = _layout(len(self.nodes), _edges(visible, everything))
        points = [*self.places, *(point for route in self.routes for point in route)]
        self.left = min((x for x, _ in points), default=0.0)
        self.width = 1 + max((x for x, _ in points), default=0.0) - self.left
        self.height = 1 + max((y for _, y in points), default=0.0)

    def draw(self, axes: Axes, limit: int, rows: float) -> None:
        for route in self.routes:
            xs, ys = [x for x, _ in route[:-1]], [y for _, y in route[:-1]]
            end = route[-1]
            axes.plot(xs, ys, color="0.55", linewidth=0.8, zorder=1)
            axes.annotate(
                "", xy=(end[0], end[1] - 0.25), xytext=(xs[-1], ys[-1]), zorder=1,
                arrowprops={"arrowstyle": "-|>", "color": "0.55", "linewidth": 0.8,
                            "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7},
            )  # fmt: skip
        for node, (x, y) in zip(self.nodes, self.places, strict=True):
            inside = node.loop is not None
            colour = loop_colour(node.loop or 0) if inside else "white"
            edge = "C3" if node.bytes > limit else "black" if node.output else "0.5"
            axes.text(
                x, y, label(node), ha="center", va="center", fontsize=6.5, zorder=2,
                bbox={"boxstyle": "round,pad=0.3", "facecolor": colour, "edgecolor": edge,
                      "linewidth": 1.4 if edge != "0.5" else 0.6},
            )  # fmt: skip
        axes.set_xlim(self.left - 0.5, self.left + self.width - 0.5)
        axes.set_ylim(rows - 0.5, -0.5)
        axes.axis("off")


def label(node: GraphNode) -> str:
    """Return a node's text: op or name, type of its first result, bytes of its largest."""
    sizes = ", ".join("?" if size is None else str(size) for size in node.shape)
    first = node.name if node.op == INPUT else node.op
    first = first if len(first) <= 22 else first[:21] + "…"
    return f"{first}\n{short_dtype(node.dtype)}[{sizes}]\n{format_bytes(node.bytes)}"


def _edges(visible: Sequence[int], nodes: Sequence[GraphNode]) -> list[tuple[int, int]]:
    """Return edges between visible nodes, numbered among themselves, through hidden nodes.

    An edge through hidden nodes is omitted if a path of drawn edges connects the same nodes.
    """
    number = {i: k for k, i in enumerate(visible)}
    sources: list[frozenset[int]] = []  # by node: the nearest visible nodes before it
    above: dict[int, set[int]] = {}  # by visible node: all visible nodes before it
    edges: list[tuple[int, int]] = []
    for i, node in enumerate(nodes):
        found = frozenset().union(*(sources[j] for j in node.inputs))
        if i not in number:
            sources.append(found)
            continue
        target = number[i]
        direct = {number[j] for j in node.inputs if j in number}
        kept = {
            source
            for source in found
            if source in direct or not any(source in above[other] for other in found)
        }
        above[target] = set(found).union(*(above[source] for source in found))
        edges += [(source, target) for source in sorted(kept)]
        sources.append(frozenset({target}))
    return edges


Point = tuple[float, float]


def _layout(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[Point], list[list[Point]]]:
    """Return a place for each node, and for each edge the points on its route."""
    try:
        import igraph
    except ImportError as error:
        raise ImportError("drawing a graph needs igraph: pip install 'igraph>=1'") from error
    if not count:
        return [], []
    graph = igraph.Graph(n=count, edges=list(edges), directed=True)
    layers = [0] * count
    for source, target in edges:  # sorted by target, in topological order
        layers[target] = max(layers[target], layers[source] + 1)
    # A node without producers is placed right above its first consumer.
    for node in range(count):
        below = [layers[target] for source, target in edges if source == node]
        if not graph.indegree(node) and below:
            layers[node] = min(below) - 1
    layout = graph.layout_sugiyama(layers=layers, maxiter=500)
    left = min(x for x, _ in layout.coords)
    places = [(float(x) - left, float(y)) for x, y in layout.coords[:count]]
    routes = []
    for (source, target), bends in zip(edges, layout.edge_routing, strict=True):
        between = [(float(x) - left, float(y)) for x, y in bends]
        routes.append([places[source], *sorted(between, key=lambda p: p[1]), places[target]])
    return places, routes
