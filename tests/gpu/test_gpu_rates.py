"""The derived rates of GPUs reproduce what was measured on one; nothing here needs it."""

from __future__ import annotations

import pytest
from fresh_process import run_fresh
from needs import GPFLOW

QUICK = [
    "K v, n=20,000", "K v, n=60,000, d=10, float32", "K v, n=500,000, d=10",
    "K v, n=100,000, d=1 (H200)", "K v, n=1,000,000, d=1 (H200)",
    "v' K v and gradients, n=12,000", "neighbours L2", "attention",
]  # fmt: skip
"""Those that are planned in a second."""
WITHIN = 1.5
"""The largest factor of these rows is 1.44, of attention; plans may change a little."""


def ratios(name: str) -> dict[str, float]:
    """Return estimated over measured times of a row, planned as when it was measured."""
    from gpu.rows import ROWS, figures

    from tf_exla.ir.rates import CPU

    (row,) = (one for one in ROWS if one.name == name)
    return {
        one.how: one.estimated(row.rates) / one.measured
        for one in figures(row, CPU)
        if one.measured is not None and "XLA" not in one.how
    }


@GPFLOW
@pytest.mark.parametrize("name", QUICK)
def test_estimates_are_near_what_was_measured(name: str) -> None:
    found = run_fresh(ratios, name)
    assert found
    for how, ratio in found.items():
        assert 1 / WITHIN < ratio < WITHIN, how
