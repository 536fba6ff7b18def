"""The paper's own cases, executed: below the limit, and with the original's numbers."""

from __future__ import annotations

import pytest
from fresh_process import run_fresh

from rewriting.paper_cases import CASES, LIMIT, run_cases

NAMES = [case.name for case in CASES]
# No L x L product is left: none of them needs a loop.
WITHOUT_LOOPS = {"sum(a (b cᵀ), 1)", "sum(a (b cᵀ), 1) v", "(a bᵀ) c", "a (b cᵀ) d"}


@pytest.mark.parametrize("limit", [LIMIT // 10, pytest.param(LIMIT, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("start", range(3))
def test_below_the_limit(start: int, limit: int) -> None:
    names = NAMES[start::3]
    found = run_fresh(run_cases, names, limit)
    assert [one["name"] for one in found] == names
    for one in found:
        assert one["before"] > limit, one
        assert one["measured"] <= one["projected"] <= limit, one
        assert one["worst"] < 2e-5, one
        assert bool(one["loops"]) != (one["name"] in WITHOUT_LOOPS), one
