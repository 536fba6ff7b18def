"""The main job through its command line, at a small size but on all of the terrain."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gp_experiments.demo import demo
from tf_exla.byte_size import parse_bytes

ROOT = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG"


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "gp_experiments", "demo", *options]


def environment() -> dict[str, str]:
    paths = [path for path in sys.path if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}


def called(*options: str) -> str:
    """Run the command in a new process; return what it prints."""
    done = subprocess.run(
        command(*options), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def invoked(*options: str) -> str:
    """Run the command in this process, which has imported most; return what it prints."""
    done = CliRunner().invoke(demo, options, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("call", [invoked, pytest.param(called, marks=pytest.mark.thorough)])
def test_demo_end_to_end(call: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("of an earlier run")
    options = ("-m", "16", "--limit", "14MB", "--iterations", "3", "--output", str(tmp_path))
    said = call(*options)
    names = {"memory.png", "parameters.npz", "results.json", "surface.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.glob("*.png"))

    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["num_train"], results["num_test"]) == (92_883, 45_749)
    # 16 points see the broad shape of the land: better than its mean, of RMSE 1 and NLPD 1.42.
    assert results["test_rmse"] < 0.8
    assert results["test_nlpd"] < 1.3
    assert 100 < results["test_rmse_metres"] / results["test_rmse"] < 200
    assert len(results["losses"]) == 3
    assert results["measured_peak"] <= results["projected_peak"] <= results["limit"] == 14 * 10**6
    assert results["stock_projected_peak"] >= 10 * results["limit"]
    assert "high-water mark" in results["measured_peak_method"]
    for text in ("RMSE", "NLPD", " m ", "stock TensorFlow", "projected peak", "measured peak"):
        assert text in said


@pytest.mark.thorough
def test_interrupt_leaves_the_best_parameters_and_says_where(tmp_path: Path) -> None:
    parameters = tmp_path / "parameters.npz"
    options = ("-m", "4", "--limit", "100MB", "--iterations", "10000", "--output", str(tmp_path))
    process = subprocess.Popen(
        command(*options), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        saved = set()  # a save replaces the file: two different ones are the start and an iteration
        deadline = time.monotonic() + 240
        while len(saved) < 2 and time.monotonic() < deadline and process.poll() is None:
            if parameters.exists():
                saved.add(parameters.stat().st_mtime_ns)
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"best parameters so far are in {parameters}" in stdout
    with np.load(parameters) as values:
        assert values[".inducing_variable.Z"].shape == (4, 2)
        assert not np.allclose(values[".kernel.lengthscales"], 0.5)  # no longer those of the start
    assert not (tmp_path / "results.json").exists()


def test_a_bad_limit_is_quoted(tmp_path: Path) -> None:
    done = CliRunner().invoke(demo, ["--limit", "12 parrots", "--output", str(tmp_path)])
    assert done.exit_code == 2
    assert "12 parrots" in done.output


def test_an_impossible_limit_names_one_that_works(tmp_path: Path) -> None:
    options = ["-m", "8", "--limit", "1MB", "--iterations", "1", "--output", str(tmp_path)]
    done = CliRunner().invoke(demo, options)
    assert done.exit_code == 1
    assert "exceeds the limit 1.00 MB" in done.output
    assert "Smallest limit that works" in done.output


def test_default_limit_is_a_tenth_of_stock_or_less() -> None:
    option = next(parameter for parameter in demo.params if parameter.name == "limit")
    kuf = 500 * 92_883 * 8  # bytes; stock holds more than ten of it at once
    assert parse_bytes(option.default) < kuf
