"""What the tables and pictures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from gp_experiments.arms import OUT_OF_MEMORY
from gp_experiments.calls import FRONTENDS
from gp_experiments.records import Record, frontend_of
from tf_exla.byte_size import format_bytes

NO_MEMORY = "∅"
PAPER = "0.6"  # the paper's values are grey


@dataclass(frozen=True)
class Table:
    """A table with a caption; cells are text."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [self.header, ["---", *(["---:"] * (len(self.header) - 1))], *self.rows]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{self.caption}\n\n{body}\n"


def cell(records: Iterable[Record], key: str, show: Callable[[Any], str] = "{:.3f}".format) -> str:
    """Return the mean of a value of the result over records (seeds), ± the standard deviation.

    Where none has it: how they ended; "" for no records.
    """
    records = list(records)
    values = [r["result"][key] for r in records if r["result"].get(key) is not None]
    if values:
        text = show(mean(values) if len(values) > 1 else values[0])
        return f"{text} ± {show(stdev(values))}" if len(values) > 1 else text
    return ended(records)


def ended(records: Iterable[Record]) -> str:
    """Return how runs without a result ended: ∅ is out of memory."""
    found = {r["status"] for r in records}
    if found & OUT_OF_MEMORY:
        return NO_MEMORY
    return ", ".join(sorted(found - {"done"}))


def seconds_of(record: Record) -> float | None:
    """Return the median time of a call, in seconds."""
    times = record["result"].get("call_seconds")
    return median(times) if times else None


def seconds_cell(records: Sequence[Record]) -> str:
    times = [seconds for r in records if (seconds := seconds_of(r)) is not None]
    return short_seconds(median(times)) if times else ended(records)


def short_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def memory(value: float) -> str:
    return format_bytes(value)


def choose(records: Iterable[Record], **config: Any) -> list[Record]:
    """Return the records whose config has these values."""
    return [r for r in records if all(r["config"].get(k) == v for k, v in config.items())]


def distinct(records: Iterable[Record], key: str) -> list[Any]:
    """Return the values of a key of the config, sorted."""
    return sorted({r["config"][key] for r in records})


def new_figure(columns: int, *, width: float = 8.0, height: float = 3.4) -> tuple[Figure, Any]:
    """Return a figure at the width of a page with panels side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]


MANY_TICKS = 4


def size_axis(axes: Axes, sizes: Sequence[int], label: str) -> None:
    """Make the x axis logarithmic, with the sizes that there are as ticks."""
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    if len(sizes) > MANY_TICKS:
        axes.tick_params(axis="x", labelrotation=30)  # else labels of close sizes overlap
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)


def machine(records: Sequence[Record]) -> str:
    """Name the machines and software that records come from."""
    found = []
    for record in records:
        where = record["machine"]
        device = record["result"].get("device", "CPU")
        on = (
            f"{where['cores']} cores of {where['processor'] or 'a CPU'}"
            if device == "CPU"
            else device
        )
        frontend = frontend_of(record)
        text = f"{on}, {FRONTENDS[frontend]} {record['versions'].get(frontend, '?')}"
        if text not in found:
            found.append(text)
    return "; ".join(found)
