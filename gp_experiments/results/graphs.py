"""Graphs before and after splitting, and memory over the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from gp_experiments.records import Record
from gp_experiments.results.common import Table, cell, choose, distinct, memory
from gp_experiments.results.settings import Setting, settings
from tf_exla.report.report import MemoryReport


def _report(record: Record) -> MemoryReport:
    return TypeAdapter(MemoryReport).validate_python(record["result"]["report"])


def tables(records: Sequence[Record]) -> list[Table]:
    """Return sizes of the graphs."""
    rows = []
    for record, setting in _each(records):
        report = record["result"]["report"]
        own = [{"result": report, "status": "done"}]
        loops = ", ".join(f"{one['iterations']} x {one['chunk']:,}" for one in report["loops"])
        rows.append([
            record["label"] + setting.words("size", "limit"),
            cell(own, "projected_peak_before", memory),
            cell(own, "projected_peak", memory), f"{report['nodes_before']}", f"{report['nodes']}",
            loops,
        ])  # fmt: skip
    header = ["program", "peak before", "after", "nodes before", "after", "loops"]
    return [Table("Graphs", header, rows)]


def figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw each graph as SVG and PNG, and its memory over the plan."""
    paths = []
    for record, setting in _each(records):
        report, name = _report(record), record["config"]["program"] + setting.suffix
        for suffix in ("svg", "png"):
            paths.append(folder / f"graph-{name}.{suffix}")
            report.draw(paths[-1])
        paths.append(folder / f"memory-{name}.png")
        report.plot(paths[-1])
    return paths


def _each(records: Sequence[Record]) -> Iterator[tuple[Record, Setting]]:
    """Yield the records that have a report, each with what sets it apart from its program's."""
    done = [record for record in records if record["status"] == "done"]
    for program in distinct(done, "program"):
        for setting in settings(choose(done, program=program)):
            (record,) = setting.records
            yield record, setting
