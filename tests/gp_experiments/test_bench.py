import os
import re

import pytest
from click.testing import CliRunner

from gp_experiments.bench import bench
from gp_experiments.fresh_process import QUICK, call_fresh


def process_and_setting(name: str) -> list[object]:
    return [os.getpid(), os.environ[name]]


def failing() -> None:
    raise ValueError("12 parrots")


@pytest.fixture(autouse=True)
def _tests_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd(), prepend=os.pathsep)


def test_call_is_in_another_process_with_the_environment() -> None:
    pid, setting = call_fresh(
        process_and_setting, environment={**QUICK, "COLOUR": "blue"}, name="COLOUR"
    )
    assert pid != os.getpid()
    assert setting == "blue"


def test_failure_in_the_process_is_shown() -> None:
    with pytest.raises(RuntimeError, match=r"failing failed in a fresh process(.|\n)*12 parrots"):
        call_fresh(failing, environment=QUICK)


def test_bench_measures_stock_and_limited() -> None:
    done = CliRunner().invoke(
        bench, ["-n", "50000", "-m", "20", "--limit", "20MB", "--repeats", "1"]
    )
    assert done.exit_code == 0, done.output
    stock, limited = re.search(r"measured peak *│ ([\d.]+) MB *│ ([\d.]+) MB", done.output).groups()
    assert float(limited) <= 20 < float(stock)
    assert re.search(r"seconds, the quickest │ \d+\.\d\d *│ \d+\.\d\d", done.output)
