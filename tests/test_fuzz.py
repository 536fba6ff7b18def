"""The fuzzer: its programs hold, and what does not is found, shrunk and written down.

TF_EXLA_FUZZ_PROGRAMS=N checks N programs instead of the two hundred of every run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings

from tf_exla.fuzz import worker
from tf_exla.fuzz.command import fuzz
from tf_exla.fuzz.programs import FuzzProgram, programs
from tf_exla.fuzz.write_test import write_test

PROGRAMS = int(os.environ.get("TF_EXLA_FUZZ_PROGRAMS", "200"))
BATCH = 25


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs_hold(first: int, tmp_path: Path) -> None:
    count = min(BATCH, PROGRAMS - first)
    verdicts = fuzz(first, count, 1, 120.0, tmp_path)
    failed = [one for one in map(json.loads, (tmp_path / "log.jsonl").open()) if one["failure"]]
    assert not failed
    assert verdicts == {"holds": count}
    # Checked before: not again.
    assert fuzz(first, count, 1, 0.0, tmp_path) == verdicts


@given(programs())
@settings(max_examples=30, deadline=None)
def test_programs_are_python(program: FuzzProgram) -> None:
    compile(program.source, "program", "exec")
    assert program.source.count("\n") >= 4
    assert len(program.inputs) >= 3


def test_a_failure_is_shrunk_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_on_sin(program: FuzzProgram, seconds: float) -> dict[str, str]:
        wrong = "tf.tanh" in program.source.split("y0 = ")[1].split("\n", 1)[1]
        return {"failure": "wrong numbers" if wrong else "", "details": "as asked for"}

    monkeypatch.setattr(worker, "in_fork", fails_on_sin)
    verdicts = [worker.run_seed(seed, 20.0) for seed in range(12)]
    found = [one for one in verdicts if one["failure"]]
    assert found
    assert len(found) < len(verdicts)
    # def, y0, one line or two more, return
    assert min(one["source"].count("\n") for one in found) <= 5
    path = write_test(found[0], tmp_path)
    text = path.read_text()
    assert found[0]["source"] in text
    compile(text, str(path), "exec")
