"""Each experiment through its command at its smallest, and the pictures from the records.

Its arms run in forked processes, which have TensorFlow; `-m thorough`: as users run them, all in
new ones.
"""

import dataclasses
import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fresh_process import run_fresh
from needs import JAX
from samples import but

from gp_experiments import sweep
from gp_experiments.arms import Cap, Heard, Outcome, run_here
from gp_experiments.command import commands
from gp_experiments.records import Record, Records

ROOT = Path(__file__).resolve().parents[2]
SMALLEST = {
    "sgpr": [
        'datasets=["synthetic-4000x2"]', 'limits=["30MB"]', "num_inducing=[300]", "seeds=[111]",
        "iterations=2", "metrics_every=1", "candidates=1000",
    ],
    "matvec": [
        "sizes=[3000]", "sliced=[6000]", "rows=300", 'limits=["10MB"]', 'memory="30MB"',
        "repeats=1",
    ],
    "knn": [
        'vectors=["random-2e4x5"]', "queries=300", 'limit="10MB"', 'memory="1GB"', "repeats=1",
        'distances=["L1"]', "peers=[]", "stock=false",
    ],
    "attention": [
        "lengths=[400]", 'limits=["4MB"]', 'memory="1GB"', 'modes=["train"]', "layers=1",
        "d_model=16", "heads=2", "dff=32", "batch=2", "repeats=1", "stock=false",
    ],
    "cg": [
        'datasets=["synthetic-3000x2"]', "noise=0.1", 'limits=["5MB"]', 'memory="1GB"', "rank=20",
    ],
    "graphs": ['programs=["matvec"]', "size=3000", 'limit="10MB"'],
}  # fmt: skip


def command(*arguments: str) -> str:
    paths = [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, "-m", "gp_experiments", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def forked(function: str, arguments: Mapping[str, Any], *, cap: Cap, **_: Any) -> Outcome:
    """Do what `run_in_process` does, in a forked process."""
    return Outcome(**run_fresh(outcome, function, dict(arguments), cap))


def outcome(function: str, arguments: dict[str, Any], cap: Cap) -> dict[str, Any]:
    stream, heard = io.StringIO(), Heard()
    run_here(function, arguments, cap, stream)
    stream.seek(0)
    heard.listen(stream)
    status, error = heard.error or ("done", "")
    return dataclasses.asdict(heard.outcome(status, 1.0, error))


def invoke(*arguments: str) -> str:
    """Run a command in this process."""
    name, *options = arguments
    (chosen,) = (one for one in commands() if one.name == name)
    done = CliRunner().invoke(chosen, options, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(params=["forked", pytest.param("as users do", marks=pytest.mark.thorough)])
def call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param != "forked":
        return command
    monkeypatch.setattr(sweep, "run_in_process", forked)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")
    return invoke


# What XLA fuses needs less than in TensorFlow: other limits, and of `matvec` a size at which stock
# ends.
IN_JAX = {
    "sgpr": ['limits=["5MB"]', "num_inducing=[100]"],
    "matvec": ["sizes=[4000]", "sliced=[]"],
    "knn": ['limit="5MB"'],
    "attention": ['limits=["3MB"]'],
    "cg": [],
}


def run(call: Any, name: str, out: Path, *more: str, changed: Sequence[str] = ()) -> list[Record]:
    settings = [word for one in (*SMALLEST[name], *changed) for word in ("--set", one)]
    call(name, "--out", str(out), *more, *settings)
    drawn = call("figures", str(out))
    assert "tables.md" in drawn
    for line in drawn.split():
        if line.endswith(".png"):
            assert Path(line).read_bytes().startswith(b"\x89PNG")
    records = Records(out / "records.jsonl").latest()
    for record in records:
        result = record["result"]
        if record["config"].get("arm") == "limit":
            assert record["status"] == "done", record["error"]
            assert result["measured"] <= result["projected"] <= result["limit"]
            assert result["projected_stock"] > result["limit"]
    return records


# `test_in_new_processes` has the graphs.
@pytest.mark.parametrize("name", but(["attention", "graphs"], ["knn", "attention", "graphs"]))
def test_smallest(name: str, call: Any, tmp_path: Path) -> None:
    assert {record["status"] for record in run(call, name, tmp_path)} == {"done"}


@JAX
@pytest.mark.parametrize("name", but(["sgpr", "knn", "attention", "cg"], IN_JAX))
def test_in_jax(name: str, call: Any, tmp_path: Path) -> None:
    *_, limit = records = run(call, name, tmp_path, "--frontend", "jax", changed=IN_JAX[name])
    assert {record["config"]["frontend"] for record in records} == {"jax"}
    assert limit["config"]["arm"] == "limit"
    assert limit["result"]["split"]
    if name == "matvec":
        assert records[0]["status"] == "oom"
    assert "certified" in (tmp_path / "figures" / "tables.md").read_text()


def test_in_new_processes(tmp_path: Path) -> None:
    """All but the tables and figures."""

    def call(name: str, *arguments: str) -> str:
        return (invoke if name == "figures" else command)(name, *arguments)

    assert {record["status"] for record in run(call, "graphs", tmp_path)} == {"done"}


@pytest.mark.thorough  # `test_programs.py` has conjugate gradients, and others here have arms
def test_cg_gives_both_arms_the_same_mean(call: Any, tmp_path: Path) -> None:
    stock, limit = (record["result"] for record in run(call, "cg", tmp_path))
    assert stock["residual"] < 1e-3
    assert limit["residual"] < 1e-3
    assert limit["iterations"] > 1
    # Both stop at 1e-3; rounding differs by chunks, and with it the number of iterations.
    assert limit["rmse"] == pytest.approx(stock["rmse"], rel=1e-3)
    assert limit["rmse"] < 0.6


def test_stock_matvec_ends_where_memory_does(call: Any, tmp_path: Path) -> None:
    stock, limit = run(call, "matvec", tmp_path, changed=["sliced=[]"])
    assert (stock["status"], limit["status"]) == ("oom", "done")
    assert limit["result"]["call_seconds"]
    assert "∅" in (tmp_path / "figures" / "tables.md").read_text()


@pytest.mark.thorough
def test_some_rows_of_matvec_tell_of_all(call: Any, tmp_path: Path) -> None:
    stock_slice, limit_slice = run(call, "matvec", tmp_path, changed=["sizes=[]"])
    assert "extrapolated" in (tmp_path / "figures" / "tables.md").read_text()
    assert "all_rows" in stock_slice["result"]
    result = limit_slice["result"]
    assert result["all_rows"]["projected"] <= result["limit"]
    assert result["all_rows"]["projected_stock"] > 2 * 6000**2 * 8
    assert result["extrapolated_seconds"] == pytest.approx(20 * result["call_seconds"][0])


def test_sgpr_goes_on_where_stock_ends(call: Any, tmp_path: Path) -> None:
    stock, limit = run(call, "sgpr", tmp_path)
    assert (stock["status"], limit["status"]) == ("oom", "done")
    steps = limit["steps"]
    assert [step["evaluation"] for step in steps][:2] == [1, 2]
    assert all(step["rmse"] > 0 and step["loss"] == step["loss"] for step in steps)
    assert limit["result"]["rmse"] < steps[0]["rmse"]
