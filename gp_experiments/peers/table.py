"""The records as tables: on the terminal with rich, in Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from rich.table import Table

from gp_experiments.peers.cases import Case
from gp_experiments.peers.roofline import Rates, bound
from tf_exla.byte_size import format_bytes

HEADER = (
    "contender", "median", "fastest", "processor", "over tf_exla", "peak", "first call", "error",
    "note",
)  # fmt: skip
ANCHOR = "tf_exla"


def rows(records: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the cells of one case's records, the fastest first, those that failed last."""
    measured = [one for one in records if one.get("seconds")]
    failed = [one for one in records if not one.get("seconds")]
    measured.sort(key=lambda one: one.get("over_anchor") or median(one["seconds"]))
    return [*(_row(one) for one in measured), *(_failed_row(one) for one in failed)]


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    over, peak = record.get("over_anchor"), record.get("peak")
    return (
        record["contender"],
        seconds_text(median(record["seconds"])),
        seconds_text(min(record["seconds"])),
        seconds_text(median(record["cpu_seconds"])),
        f"{over:.2f}" if over else "",
        format_bytes(peak + record["data_bytes"]) if peak is not None else "",
        seconds_text(record["build_seconds"] + record["first_seconds"]),
        f"{record['error']:.0e}",
        _note(record),
    )


def _failed_row(record: dict[str, Any]) -> tuple[str, ...]:
    return (record["contender"], "∅", "", "", "", "", "", "", record.get("failed", "not run"))


def _note(record: dict[str, Any]) -> str:
    if "projected_peak" not in record:
        return ""
    return (
        f"projected {format_bytes(record['projected_peak'])},"
        f" limit {format_bytes(record['limit'])},"
        f" rewritten in {seconds_text(record['rewrite_seconds'])}"
    )


def seconds_text(seconds: float) -> str:
    """Return seconds with three digits, below a second in milliseconds."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def title(case: Case) -> str:
    """Describe a case in a line."""
    sizes = ", ".join(f"{name}={size:,}" for name, size in case.sizes.items())
    metric = f" {case.metric}" if case.metric else ""
    return f"{case.name}: {case.work}{metric}, {sizes}, {case.dtype}, limit {case.limit}"


def targets(case: Case, records: Sequence[dict[str, Any]]) -> list[str]:
    """Say for each target whether it is reached."""
    over = {one["contender"]: one.get("over_anchor") for one in records}
    lines = []
    for name, factor in case.target.items():
        got = over.get(name)
        if got is None:
            lines.append(f"{factor:g} x faster than {name}: {name} did not run")
        else:
            word = "reached" if got >= factor else "missed"
            lines.append(f"{factor:g} x faster than {name}: {got:.2f} x, {word}")
    return lines


def quiet_line(records: Sequence[dict[str, Any]]) -> str:
    """Say how much of the machine others had meanwhile: times are right where that is little."""
    shares = [share for one in records for share in one.get("others", ()) if share is not None]
    return f"other processes had {median(shares):.0%} of the cores" if shares else "load unknown"


def remarks(case: Case, records: Sequence[dict[str, Any]], rates: Rates | None) -> list[str]:
    """Return what stands with a case's table."""
    bounds = [bound_line(case, records, rates)] if rates else []
    return [*targets(case, records), *bounds, quiet_line(records)]


def bound_line(case: Case, records: Sequence[dict[str, Any]], rates: Rates) -> str:
    """Say how near tf_exla is to the roofline."""
    least = bound(case, rates)
    ours = next((one for one in records if one["contender"] == ANCHOR and one.get("seconds")), None)
    share = f", tf_exla at {least / median(ours['seconds']):.0%} of it" if ours else ""
    return f"bound by products and exponentials: {seconds_text(least)}{share}"


def rich_table(case: Case, records: Sequence[dict[str, Any]]) -> Table:
    """Return the table of one case for a terminal."""
    table = Table(title=title(case), title_justify="left")
    for name in HEADER[:-1]:
        table.add_column(name, justify="left" if name == "contender" else "right", no_wrap=True)
    for row in rows(records):
        table.add_row(*row[:-1])
    return table


def notes(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the notes of the rows, which are too long for a terminal's table."""
    return [f"{row[0]}: {row[-1]}" for row in rows(records) if row[-1]]


def markdown(cases: Sequence[Case], records: Sequence[dict[str, Any]], rates: Rates | None) -> str:
    """Return all tables in Markdown."""
    parts = []
    for case in cases:
        own = [one for one in records if one["case"]["name"] == case.name]
        if not own:
            continue
        parts += [f"### {title(case)}", "; ".join(remarks(case, own, rates)) + ".", ""]
        parts += [_line(HEADER), "|---|" + "---:|" * (len(HEADER) - 2) + "---|"]
        parts += [*(_line(row) for row in rows(own)), ""]
    if rates:
        parts += [rates_table(rates), ""]
    return "\n".join(parts)


BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def with_tables(page: str, tables: str) -> str:
    """Return a page with the tables between its marks. Raises ValueError where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables.strip()}\n\n{END}{after}"


def rates_table(rates: Rates) -> str:
    """Return the measured rates in Markdown."""
    lines = [_line(("rate", "dtype", "by", "per second")), "|---|---|---|---:|"]
    for name, rate in rates.items():
        kind, dtype, library = name.split()
        unit = "GFLOP" if kind == "gemm" else "billion"
        lines.append(_line((kind, dtype, library, f"{rate / 1e9:.3g} {unit}")))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
