"""The short form of a report: about ten lines."""

from __future__ import annotations

from tf_exla.byte_size import format_bytes
from tf_exla.report.data import LoopEntry, ReportData
from tf_exla.report.text import WIDTH, format_shape, sharding_lines

LOOPS = 4
"""Loops that are shown. The others are only counted."""
SLOWER = 1.25
"""Plans estimated to be slower by this factor get the hint that a larger limit is faster."""


def format_summary(report: ReportData) -> str:
    """Return the peak, the time, the loops, the notes, and what to look at next, as lines."""
    before = format_bytes(report.projected_peak_before)
    lines = [f"{report.function} on {report.device}, limit {format_bytes(report.limit)}"]
    lines.append(
        _entry(
            "peak",
            f"{before} -> {format_bytes(report.projected_peak)} projected, "
            f"{format_bytes(report.resident)} of it resident",
        )
    )
    lines.append(_entry("time", _time(report)))
    lines += [_entry(name, text) for name, text in sharding_lines(report)]
    for number, loop in enumerate(report.loops[:LOOPS]):
        sharding = report.sharding
        whole = sharding is not None and not loop.depth and loop.iterations <= sharding.shards
        parts = "shards" if whole else "chunks"
        lines.append(_entry(f"loop {number + 1}", _loop(loop, parts)))
    if len(report.loops) > LOOPS:
        lines.append(_entry("", f"and {len(report.loops) - LOOPS} more loops"))
    if not report.loops:
        lower = (step for step in report.steps if step.working_set < step.working_set_before)
        moves = "; ".join(step.move for step in lower)
        known = ("moves", moves) if moves else ("loops", "none: nothing had to be split")
        lines.append(_entry(*known))
    left = report.largest_left
    if left is not None:
        where = f", {left.source}" if left.source else ""
        shape = format_shape(left.shape, left.dtype)
        lines.append(
            _entry("largest", f"{shape}, {format_bytes(left.bytes)}, is left whole{where}")
        )
    for note in report.notes:
        lines.append(_entry("note", note))
    lines.append(_entry("next", _next(report)))
    return "\n".join(lines)


def _entry(name: str, text: str) -> str:
    """Return a line. Long lines are cut, since `details` has the rest."""
    line = f"  {name:<8} {text}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4].rsplit(' ', 1)[0]} ..."


def _time(report: ReportData) -> str:
    planned = f"planned in {report.rewrite_seconds:.2f} s"
    sharding = report.sharding
    if sharding is not None:
        one, many = sharding.seconds_on_one, sharding.seconds
        if one is None:
            return f"{many:.3g} s estimated, one device is not within the limit; {planned}"
        return (
            f"{one:.3g} s on one device -> {many:.3g} s estimated, {one / many:.2f} x as fast; "
            f"{planned}"
        )
    if not report.steps:
        return planned
    before, after = report.steps[0].seconds_before, report.steps[-1].seconds
    ratio = f", {after / before:.2f} x" if before else ""
    return f"{before:.3g} s -> {after:.3g} s estimated{ratio}; {planned}"


def _loop(loop: LoopEntry, parts: str) -> str:
    side_by_side = f", {loop.parallel} at once" if loop.parallel > 1 else ""
    inside = "inside of the one before: " if loop.depth else ""
    recomputed = f"; {len(loop.recomputed)} nodes computed again" if loop.recomputed else ""
    return (
        f"{inside}{loop.extent} in {loop.iterations} {parts} of {loop.chunk}{side_by_side}, "
        f"{loop.axis}{recomputed}"
    )


def _next(report: ReportData) -> str:
    hints = []
    if report.steps and report.steps[-1].seconds > SLOWER * report.steps[0].seconds_before:
        hints.append("a larger limit is faster")
    left = report.largest_left
    if left is not None and any(one.tensor == left.name for one in report.refusals):
        hints.append("details() says why the largest is not split")
    hints.append("details() has rewrites, steps and tensors; to_html(path) writes a page with all")
    return "; ".join(hints)
