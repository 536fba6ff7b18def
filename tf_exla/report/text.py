"""The long form of a report: tables by rich."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tf_exla.byte_size import format_bytes
from tf_exla.ir.dtypes import short_dtype
from tf_exla.report.data import ReportData

WIDTH = 110
REFUSALS = 6


def format_details(report: ReportData) -> str:
    """Return all of a report as text, with tables of at most `WIDTH` columns."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, highlight=False)
    console.print(
        f"{report.function} on {report.device}, limit {format_bytes(report.limit)} "
        f"(rewritten in {report.rewrite_seconds:.2f} s)"
    )
    console.print(_summary(report))
    for name, text in sharding_lines(report):
        console.print(f"{name}: {text}")
    if report.costly:
        counts = ", ".join(f"{one.op} {one.before} -> {one.after}" for one in report.costly)
        console.print(f"Nodes of at least 1 % of the flops each: {counts}")
    console.print(_largest(report))
    _rewrites(console, report)
    _steps(console, report)
    _loops(console, report)
    _refusals(console, report)
    for note in report.notes:
        console.print(f"Note: {note}.")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column[0].islower() else "right")
    return table


def _summary(report: ReportData) -> Table:
    table = _table("", "bytes", "Resident", "Working set", "Projected peak", "GFLOP")
    for name, working, peak, flops in (
        ("before", report.working_set_before, report.projected_peak_before, report.flops_before),
        ("after", report.working_set, report.projected_peak, report.flops),
    ):
        table.add_row(
            name,
            format_bytes(report.resident),
            format_bytes(working),
            format_bytes(peak),
            f"{flops / 1e9:.2f}",
        )
    return table


def sharding_lines(report: ReportData) -> list[tuple[str, str]]:
    """Return entries for the peaks of devices and the bytes sent; none for one device."""
    sharding = report.sharding
    if sharding is None:
        return []
    lines: dict[str, list[str]] = {}
    for use in sharding.uses:
        held = (
            f"peak {format_bytes(use.projected_peak)}, {format_bytes(use.resident)} of it kept "
            f"between calls, {use.seconds:.3g} s"
        )
        lines.setdefault(held, []).append(use.name)
    made = []
    for held, names in lines.items():
        which = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        made.append((which, held))
    return [*made, ("sent", f"{format_bytes(sharding.sent)} from and to the driver in each call")]


def format_shape(shape: tuple[int | None, ...], dtype: str) -> str:
    """Return a type as "f64[200, 100000]"; "?" stands for an unknown size."""
    return f"{short_dtype(dtype)}[{', '.join('?' if s is None else str(s) for s in shape)}]"


def _largest(report: ReportData) -> Table:
    table = _table("Largest tensors of the original", "tensor", "shape", "Size", "split", "source")
    for entry in report.largest:
        table.add_row(
            f"{entry.name} ({entry.op})",
            format_shape(entry.shape, entry.dtype),
            format_bytes(entry.bytes),
            "yes" if entry.split else "no",
            entry.source,
        )
    return table


def _rewrites(console: Console, report: ReportData) -> None:
    """Print the rewrites; clean-ups are only counted."""
    if not report.rewrites:
        return
    console.print("Rewrites:")
    cleanups = sum(entry.count for entry in report.rewrites if entry.rewrites == "cleanup")
    for entry in report.rewrites:
        if entry.rewrites == "cleanup":
            continue
        source = f", {entry.sources[0]}" if entry.sources else ""
        console.print(
            f"  {entry.name} ({entry.rewrites}), {entry.count}x: "
            f"{entry.flops_before / 1e6:.1f} -> {entry.flops / 1e6:.1f} MFLOP, "
            f"{format_bytes(entry.bytes_before)} -> {format_bytes(entry.bytes)} moved"
            f"{escape(source)}\n    {escape(entry.identity)}",
            soft_wrap=True,
        )
    if cleanups:
        console.print(f"  clean-ups: {cleanups}")
    console.print()


def _steps(console: Console, report: ReportData) -> None:
    """Print what each step saved and cost, and below it the alternatives that lost."""
    if not report.steps:
        return
    console.print("Steps (working set, estimated time):")
    for step in report.steps:
        console.print(
            f"  {escape(step.move)}\n    {format_bytes(step.working_set_before)} -> "
            f"{format_bytes(step.working_set)}, {step.seconds_before:.3g} -> {step.seconds:.3g} s",
            soft_wrap=True,
        )
        for one in step.alternatives:
            if one.reason:
                console.print(
                    f"      or {escape(one.move)}: {format_bytes(one.working_set)}, "
                    f"{one.seconds:.3g} s: {one.reason}",
                    soft_wrap=True,
                )
    console.print()


def _loops(console: Console, report: ReportData) -> None:
    if not report.loops:
        console.print("Nothing had to be split.")
        return
    table = _table(
        "Loops", "stage", "Extent", "Chunk", "Runs", "Side by side", "Body", "Recomputed",
        "Extra GFLOP",
    )  # fmt: skip
    for entry in report.loops:
        table.add_row(
            "  " * entry.depth + str(entry.stage),
            str(entry.extent),
            str(entry.chunk),
            str(entry.iterations),
            str(entry.parallel),
            format_bytes(entry.body_peak),
            f"{len(entry.recomputed)} nodes",
            f"{entry.extra_flops / 1e9:.2f}",
        )
    console.print(table)
    for entry in report.loops:
        results = ", ".join(
            f"{format_shape(result.shape, result.dtype)} {result.combine}"
            for result in entry.results
        )
        console.print(
            f"  stage {entry.stage}: {escape(entry.axis)}\n    results: {escape(results)}"
        )


def _refusals(console: Console, report: ReportData) -> None:
    if not report.refusals:
        return
    console.print("Not split:")
    for one in report.refusals[:REFUSALS]:
        console.print(
            f"  {one.tensor} {format_shape(one.shape, one.dtype)}, {format_bytes(one.bytes)}: "
            f"axis {one.axis} reaches {one.op} ({one.node}): {one.reason}"
        )
    if len(report.refusals) > REFUSALS:
        console.print(f"  and {len(report.refusals) - REFUSALS} smaller ones")
