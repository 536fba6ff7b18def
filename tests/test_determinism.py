"""Equal bits from run to run, with TensorFlow's op determinism and without."""

from __future__ import annotations

from determinism_programs import run_all
from fresh_process import run_fresh


def test_one_plan_gives_the_same_bits() -> None:
    assert run_fresh(run_all) == {}
