"""Each experiment through its command at its smallest, and the pictures from the records."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(name: str, out: Path) -> list[Record]:
    settings = [word for setting in SMALLEST[name] for word in ("--set", setting)]
    command(name, "--out", str(out), *settings)
    drawn = command("figures", str(out))
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


@pytest.mark.parametrize("name", ["knn", "attention", "graphs"])
def test_smallest(name: str, tmp_path: Path) -> None:
    assert {record["status"] for record in run(name, tmp_path)} == {"done"}


def test_cg_gives_both_arms_the_same_mean(tmp_path: Path) -> None:
    stock, limit = (record["result"] for record in run("cg", tmp_path))
    assert stock["residual"] < 1e-3
    assert limit["residual"] < 1e-3
    assert limit["iterations"] > 1
    # Both stop at 1e-3; rounding differs by chunks, and with it the number of iterations.
    assert limit["rmse"] == pytest.approx(stock["rmse"], rel=1e-3)
    assert limit["rmse"] < 0.6


def test_stock_matvec_ends_where_memory_does(tmp_path: Path) -> None:
    stock, limit, stock_slice, limit_slice = run("matvec", tmp_path)
    assert (stock["status"], limit["status"]) == ("oom", "done")
    assert limit["result"]["call_seconds"]
    tables = (tmp_path / "figures" / "tables.md").read_text()
    assert "∅" in tables
    assert "extrapolated" in tables
    assert "all_rows" in stock_slice["result"]
    result = limit_slice["result"]
    assert result["all_rows"]["projected"] <= result["limit"]
    assert result["all_rows"]["projected_stock"] > 2 * 6000**2 * 8
    assert result["extrapolated_seconds"] == pytest.approx(20 * result["call_seconds"][0])


def test_sgpr_goes_on_where_stock_ends(tmp_path: Path) -> None:
    stock, limit = run("sgpr", tmp_path)
    assert (stock["status"], limit["status"]) == ("oom", "done")
    steps = limit["steps"]
    assert [step["evaluation"] for step in steps][:2] == [1, 2]
    assert all(step["rmse"] > 0 and step["loss"] == step["loss"] for step in steps)
    assert limit["result"]["rmse"] < steps[0]["rmse"]
