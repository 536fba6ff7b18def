"""Loops and branches under a limit: sinking, and splitting inside."""

from __future__ import annotations

from typing import Any

from control_flow_programs import PROGRAMS
from fresh_process import run_fresh
from programs import Case
from programs_check import check_case


def check_all() -> list[dict[str, Any]]:
    return [check_case(Case(name, *how)) for name, how in PROGRAMS.items()]


def test_control_flow() -> None:
    for found in run_fresh(check_all):
        assert found["measured"] <= found["projected"] <= found["limit"], found
        assert found["worst"] <= 1, found
        assert found["loops"], found
