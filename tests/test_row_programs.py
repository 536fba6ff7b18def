"""Programs that were refused once: results and peaks, at each case's limit and the smallest one.

Several run in one fresh process. If one measures too much there, it runs again in a separate one.
"""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs_check import check_case
from row_programs import ROW_CASES

import tf_exla

CASES = {case.name: case for case in ROW_CASES}


def check_at_limits(names: list[str]) -> list[dict[str, Any]]:
    """Check programs at their factor and at the smallest limit."""
    found = []
    for name in names:
        function, arguments = CASES[name].make()
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.explain(tf.function(function, autograph=False), *arguments, limit=1)
        for given in (None, info.value.smallest_limit):
            found.append(check_case(CASES[name], given=given))
    return found


@pytest.mark.parametrize("part", range(4))
def test_limits(part: int) -> None:
    for one in run_fresh(check_at_limits, list(CASES)[part::4]):
        if one["measured"] > one["projected"]:
            again = run_fresh(check_at_limits, [one["name"]])
            one = next(other for other in again if other["limit"] == one["limit"])
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
        assert one["loops"], one
