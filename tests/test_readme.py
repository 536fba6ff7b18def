"""What the README shows works."""

import re
from pathlib import Path

import pytest
from fresh_process import run_fresh

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(language: str) -> str:
    """The first code block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("iterations", [1, pytest.param(5, marks=pytest.mark.thorough)])
def test_example_runs_inside_its_limit_and_stock_does_not(iterations: int) -> None:
    example = block("python")
    assert example.count('"maxiter": 5') == 1
    shorter = example.replace('"maxiter": 5', f'"maxiter": {iterations}')
    report = run_fresh(shorter + "\nsend(optimizer.report.to_dict())")
    assert report["projected_peak"] <= report["limit"] < report["projected_peak_before"]


def test_printed_report_is_of_the_example() -> None:
    printed = block("text")
    assert re.search(r'limit="(\d+)MB"', block("python"))[1] + " MB" in printed.splitlines()[0]
    assert "Projected peak" in printed


def test_one_line_runs_the_tests() -> None:
    # It is what .ci/run extracts and runs.
    assert len([line for line in README.splitlines() if "-m pytest" in line]) == 1
