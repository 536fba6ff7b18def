"""Loops and branches under a limit: sinking, and splitting inside."""

from __future__ import annotations

from typing import Any

import pytest
from control_flow_programs import PROGRAMS
from fresh_process import run_fresh
from programs import Case
from programs_check import check_case
from samples import but


def check(names: list[str]) -> list[dict[str, Any]]:
    return [check_case(Case(name, *PROGRAMS[name])) for name in names]


@pytest.mark.parametrize("first", but([1], [0, 1]))
def test_control_flow(first: int) -> None:
    """For every second program of the table."""
    for found in run_fresh(check, list(PROGRAMS)[first::2]):
        assert found["measured"] <= found["projected"] <= found["limit"], found
        assert found["worst"] <= 1, found
        assert found["loops"], found
