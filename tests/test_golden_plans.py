"""Plans stay what they are: which axes are split at three limits, and the smallest that works.

`python tests/planning.py --golden` writes them again, to be looked at before it is committed.
"""

from __future__ import annotations

import json

from fresh_process import run_fresh
from needs import is_installed
from planning import GOLDEN, golden
from programs import GPFLOW_CASES

NEAR = 0.02
"""Of the smallest limit: less is better, and a node more is no change."""


def test_golden_plans() -> None:
    known = json.loads(GOLDEN.read_text())
    if not is_installed("gpflow"):
        known = {name: known[name] for name in known.keys() - {case.name for case in GPFLOW_CASES}}
    found = run_fresh(golden, list(known))
    for name, plans in known.items():
        assert found[name]["smallest"] <= (1 + NEAR) * plans["smallest"], name
        assert found[name]["loops"] == plans["loops"], name
