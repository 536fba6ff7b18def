"""Tests of many seeds: every run has a sample of them, `-m thorough` the others.

The samples are those seeds of the first 200 that run the most distinct branches of tf_exla, and
have the most distinct ops, for their time. Where programs of a seed change, they are as good as
any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def batches(sample: Sequence[int], count: int, size: int) -> list[Any]:
    """Return parameters, each up to `size` of the seeds below `count`."""
    rest = sorted(set(range(count)) - set(sample))
    return [
        pytest.param(seeds[k : k + size], id=f"{seeds[k]} and others", marks=marks)
        for seeds, marks in ((sorted(sample), ()), (rest, pytest.mark.thorough))
        for k in range(0, len(seeds), size)
    ]
