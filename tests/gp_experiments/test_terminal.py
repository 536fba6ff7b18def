"""What a terminal, a pipe and an axis show of numbers."""

from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.table import Table

from gp_experiments.terminal import new_console
from tf_exla.report.ticks import readable_ticks


def test_tables_in_a_pipe_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table(*(f"a column with a long name {k}" for k in range(9)))
    new_console().print(table)
    out = capsys.readouterr().out
    assert all(f"a column with a long name {k}" in out for k in range(9))
    monkeypatch.setenv("COLUMNS", "90")
    assert new_console().width == 90


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (62, 68, ["62", "63", "64", "65", "66", "67", "68"]),
        (45, 190, ["60", "80", "100", "120", "140", "160", "180"]),
        (3000, 40_000, ["5,000", "10,000", "20,000"]),
        (0.004, 30, ["0.01", "0.1", "1", "10"]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_numbers(low: float, high: float, labels: Any) -> None:
    axes = Figure().subplots()
    axes.set(yscale="log", ylim=(low, high))
    readable_ticks(axes.yaxis)
    axes.figure.draw_without_rendering()
    shown = [
        tick.get_text()
        for tick, place in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)
        if low <= place <= high
    ]
    assert shown == labels
    assert not any(tick.get_text() for tick in axes.get_yticklabels(minor=True))
