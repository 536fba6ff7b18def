"""Random programs against their optimized selves: values, gradients, and the promise.

TF_EXLA_RANDOM_PROGRAMS=N checks N programs instead of the few hundred of every run.
"""

from __future__ import annotations

import os

import pytest
from fresh_process import run_fresh
from random_check import check_programs, is_forced

PROGRAMS = int(os.environ.get("TF_EXLA_RANDOM_PROGRAMS", "200"))
BATCH = 25  # programs in one process: small enough to share out between workers


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs(first: int, forced: bool) -> None:
    last = min(first + BATCH, PROGRAMS)
    found = run_fresh(check_programs, first, last, forced, timeout=1200)
    assert len(found) == sum(is_forced(seed) is forced for seed in range(first, last))
    for one in found:
        said = f"seed {one['seed']}: {one}"
        assert one["worst"] <= 1.0, said
        assert one["measured"] <= one["projected"] <= one["limit"], said
    assert sum(bool(one["loops"]) for one in found) > len(found) // 2
