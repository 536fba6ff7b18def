"""The promise and the results for programs that people run: see `programs.py`.

Each batch runs in a fresh process. It checks measured <= projected <= limit, with a limit 5 to 20
times below the stock peak (less if a matrix must exist whole, as for a Cholesky).
"""

from __future__ import annotations

import os

import pytest
from api_programs import API_CASES
from found_programs import FOUND_CASES
from fresh_process import run_fresh
from image_programs import IMAGE_CASES
from needs import GPFLOW
from programs import CASES, GPFLOW_CASES, LARGE_CASES
from programs_check import ALL, check_cases

SIZE = 14
BATCHES = [
    pytest.param(names, id=f"{names[0]} to {names[-1]}", marks=marks)
    for table, step, needs in (
        # Neighbours in a table are alike: of each three or four, every run has the first.
        (CASES, 3, ()),
        (GPFLOW_CASES, 4, (GPFLOW,)),
        (FOUND_CASES, 3, ()),
        (API_CASES, 3, ()),
        (IMAGE_CASES, 2, ()),
    )
    for cases, marks in (
        (table[::step], needs),
        ([case for k, case in enumerate(table) if k % step], (*needs, pytest.mark.thorough)),
    )
    for first in range(0, len(cases), SIZE)
    for names in [[case.name for case in cases[first : first + SIZE]]]
]


@pytest.mark.parametrize("names", BATCHES)
def test_programs(names: list[str]) -> None:
    check(names)


def check(names: list[str], timeout: float = 300) -> None:
    found = run_fresh(check_cases, names, timeout=timeout)
    assert [one["name"] for one in found] == names
    for one in found:
        if one["measured"] > one["projected"]:
            # XLA's compiler leaves memory in its threads, which the resident set of later programs
            # shows. So a peak above the projection is measured again in a separate process.
            (one,) = run_fresh(check_cases, [one["name"]], timeout=timeout)
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
        assert one["loops"] or ALL[one["name"]].rewritten, one


@pytest.mark.skipif("TF_EXLA_FULL" not in os.environ, reason="TF_EXLA_FULL=1: several minutes")
@pytest.mark.parametrize("name", [case.name for case in LARGE_CASES])
def test_large_programs(name: str) -> None:
    check([name], timeout=3600)
