"""Every op with an axis rule has a measured bound: kernel_scratch.json, by measure_kernels.py."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from typing import Any

from fresh_process import run_fresh
from frontends.measure_kernels import DATA, SHAPES, covered, exceeded, measure

ROWS: list[dict[str, Any]] = json.loads(DATA.read_text())
SAMPLE = 16


def test_no_op_lacks_a_row() -> None:
    counts = Counter(one["op"] for one in ROWS)
    lacking = {op: counts[op] for op in covered() if counts[op] < SHAPES}
    assert not lacking


def test_recorded_measurements_are_within_their_bounds() -> None:
    assert not exceeded(ROWS)


def test_sample_is_measured_again() -> None:
    """Another part of the table each day, so that all of it is measured in a month."""
    ops = covered()
    parts = -(-len(ops) // SAMPLE)
    part = datetime.date.today().toordinal() % parts
    rows = run_fresh(measure, ops[part::parts])
    assert rows
    assert not exceeded(rows)
