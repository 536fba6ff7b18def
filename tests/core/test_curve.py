"""The curve of limit against time: planned without a framework, monotone, and small to keep."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy.trace import trace
from tf_exla.ir.graph import Graph
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.report.curve import Curve
from tf_exla.report.curve_data import CurvePoint
from tf_exla.report.make import make_report
from tf_exla.report.report import MemoryReport

OPTIONS = Options(chunk_bytes=1 << 18, body_bytes=3 << 17, cores=2)


def distances(xp, x, y):
    d = x @ y.T
    return xp.sum(xp.exp(d) * d, axis=1)


def softmax(xp, x, y):
    k = xp.exp(x @ y.T)
    return (k / xp.sum(k, axis=1)[:, None]) @ y


def report(graph: Graph, limit: int = 10**9) -> MemoryReport:
    ops = InPlaceOps()
    return make_report(
        optimize_graph(graph, ops, limit=limit, options=OPTIONS), ops, function="function"
    )


@pytest.mark.parametrize("function", [distances, softmax])
def test_a_curve_goes_from_the_smallest_limit_to_stock(function) -> None:
    graph = trace(function, (997, 3), (1009, 3))
    found = report(graph)
    curve = found.curve()
    limits = [point.limit for point in curve.points]
    assert len(limits) == 8
    assert limits == sorted(set(limits))
    assert limits[-1] == curve.stock_peak == found.projected_peak_before
    ratios = [after / before for before, after in pairwise(limits)]
    assert max(ratios) < 1.01 * min(ratios)  # geometric steps
    for point in curve.points:
        assert point.projected_peak <= point.limit
    for before, after in pairwise(curve.points):
        assert after.seconds <= before.seconds
    with pytest.raises(Exception, match="Smallest limit that works"):
        report(graph, limits[0] - 1)
    assert curve.points[0].loops
    # A report within another limit has the same curve.
    assert report(graph, limits[0]).curve() == curve


def test_points_are_what_plans_within_their_limits_come_to() -> None:
    """If a plan of less memory is faster, a point has that plan."""
    graph = trace(distances, (997, 3), (1009, 3))
    points = report(graph).curve(3).points
    for before, point in zip((None, *points), points, strict=False):
        if before is not None and point.projected_peak == before.projected_peak:
            continue
        planned = report(graph, point.limit)
        assert planned.projected_peak == point.projected_peak
        assert len(planned.loops) == point.loops


def test_where_nothing_can_be_saved_there_is_one_point() -> None:
    curve = report(trace(lambda xp, x: xp.exp(x), (50, 3))).curve()
    (point,) = curve.points
    assert (point, point.limit, point.loops) == (curve.knee, curve.stock_peak, 0)


def test_the_knee_is_the_smallest_of_the_fast_ones() -> None:
    seconds = (3.0, 1.04, 1.0, 1.0)
    points = tuple(CurvePoint(2**k * 10**6, 10**6, s, 1) for k, s in enumerate(seconds))
    curve = Curve("f", "CPU", 8 * 10**6, 1.5, points)
    assert curve.knee is points[1]
    lines = str(curve).splitlines()
    assert lines[0] == "f on CPU: stock needs 8.00 MB, 1.5 s estimated"
    assert len(lines) == 6
    assert [line.endswith("knee") for line in lines] == [False] * 3 + [True] + [False] * 2


def test_a_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    curve = report(trace(distances, (997, 3), (1009, 3))).curve(3)
    figure = curve.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert figure.axes[0].get_xlabel().startswith("limit [")


def test_fewer_than_two_points_are_refused() -> None:
    with pytest.raises(ValueError, match="two points at least, got 1"):
        report(trace(distances, (97, 3), (109, 3))).curve(1)


def test_a_report_is_still_plain_values() -> None:
    found = report(trace(distances, (97, 3), (109, 3)))
    assert "again" not in found.to_dict()
    assert json.loads(found.to_json())["function"] == "function"
    assert "again" not in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    with pytest.raises(ValueError, match="no graph to plan again"):
        again.curve()


def test_a_report_keeps_no_arrays() -> None:
    kept = report(trace(distances, np.zeros((997, 3)), np.zeros((1009, 3)))).again
    assert kept is not None
    assert all(tensor.value is None for tensor in kept.graph.inputs)
