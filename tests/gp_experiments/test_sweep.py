"""Sweeps: what has a record is skipped, a failure is not a record, an arm without memory is one."""

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from gp_experiments import sweep as module
from gp_experiments.command import commands
from gp_experiments.records import Record, Records
from gp_experiments.sweep import Phase, Task, sweep

HERE = Path(__file__).parent
QUIET = Console(quiet=True)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join([str(HERE), *filter(None, sys.path)]))


def task(label: str, function: str, **config: Any) -> Task:
    phase = Phase("run", f"arm_functions:{function}", cap="resident")
    return Task(label, {"label": label, **config}, (phase,))


def run(tasks: list[Task], out: Path, **options: Any) -> dict[str, int]:
    return dict(sweep("test", tasks, out=out, data_dir=out, console=QUIET, **options))


def by_label(out: Path) -> dict[str, Record]:
    return {record["label"]: record for record in Records(out / module.FILENAME).latest()}


def test_each_arm_is_recorded_with_how_it_ended(tmp_path: Path) -> None:
    tasks = [
        task("sum", "add", a=1, b=2),
        task("large", "allocate", limit=50_000_000, sizes=[1000, 200_000_000]),
        task("mistake", "mistake"),
    ]
    assert run(tasks, tmp_path) == {"done": 1, "oom": 1, "failed": 1}
    records = by_label(tmp_path)
    assert records["sum"]["result"]["sum"] == 3
    assert records["large"]["status"] == "oom"
    assert records["large"]["steps"] == [{"size": 1000}]
    assert "no such thing" in records["mistake"]["error"]
    assert records["sum"]["config"] == {"label": "sum", "a": 1, "b": 2}
    assert records["sum"]["machine"]["cores"] >= 1

    # Out of memory is a result; a failure is tried again.
    assert run(tasks, tmp_path) == {"skipped": 2, "failed": 1}
    assert run(tasks[:1], tmp_path, force=True) == {"done": 1}
    assert len(list(Records(tmp_path / module.FILENAME))) == 5


def test_a_killed_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    tasks = [task(name, "add", a=1, b=n) for n, name in enumerate("xyz")]
    run(tasks[:1], tmp_path)
    path = tmp_path / module.FILENAME
    path.write_bytes(path.read_bytes() + b'{"key": "of a run that was')
    assert run(tasks, tmp_path) == {"skipped": 1, "done": 2}
    assert sorted(by_label(tmp_path)) == ["x", "y", "z"]


def test_phases_run_until_one_does_not_end_well(tmp_path: Path) -> None:
    good = Phase("good", "arm_functions:add")
    bad = Phase("bad", "arm_functions:refuse")
    made = Task("both", {"a": 1, "b": 1}, (good, bad, good))
    assert run([made], tmp_path) == {"refused": 1}
    record = by_label(tmp_path)["both"]
    assert record["phase"] == "bad"
    assert record["result"]["sum"] == 2
    assert len(record["steps"]) == 1


BROKEN = {
    "unknown": ("sgpr", 'datasets=["nowhere"]', "there is no data set 'nowhere'"),
    "csv": ("cg", 'datasets=["kin40k"]', "kin40k.csv, line 2: 'x' is no finite number"),
    "split": ("sgpr", "fold=3", "synthetic-20000x3 has 0 published splits, no number 3"),
    "vectors": ("knn", 'vectors=["nowhere"]', "there are no vectors 'nowhere'"),
    "limit": ("sgpr", 'limits=["much"]', "got 'much'"),
}


@pytest.mark.parametrize(("name", "override", "message"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_run_is_said_before_any_process_starts(
    name: str, override: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(module, "run_in_process", start)
    (tmp_path / "kin40k.csv").write_text("1,2\n3,x\n")
    config = Path(__file__).parents[2] / "configs" / f"{name}-small.toml"
    (command,) = (one for one in commands() if one.name == name)
    done = CliRunner().invoke(
        command,
        ["--config", str(config), "--set", override, "--out", str(tmp_path),
         "--data-dir", str(tmp_path)],
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    assert message in done.output
    assert not (tmp_path / module.FILENAME).exists()
