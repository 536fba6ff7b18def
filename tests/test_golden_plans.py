"""Plans do not change: the axes that are split at three limits, and the smallest limit.

`python tests/planning.py --golden` writes them again, for a review before they are committed.
"""

from __future__ import annotations

import json

from fresh_process import run_fresh
from needs import is_installed
from planning import GOLDEN, golden
from programs import GPFLOW_CASES

NEAR = 0.02
"""Fraction by which the smallest limit may grow: one node more is no change, less is better."""


def test_golden_plans() -> None:
    known = json.loads(GOLDEN.read_text())
    if not is_installed("gpflow"):
        known = {name: known[name] for name in known.keys() - {case.name for case in GPFLOW_CASES}}
    found = run_fresh(golden, list(known))
    for name, plans in known.items():
        assert found[name]["smallest"] <= (1 + NEAR) * plans["smallest"], name
        assert found[name]["loops"] == plans["loops"], name
