"""Programs that were refused once: results and peaks, at each case's limit and the smallest one.

Of each three neighbours in the table, every run has the first at its smallest limit; `-m thorough`
has the others. Several run in one fresh process. If one measures too much there, it runs again in a
separate one.
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
SIZE = 6
PARTS = [
    pytest.param(part, smallest, id=f"{part[0]} and others, {limit}", marks=marks)
    for names, smallest, marks in (
        (list(CASES)[::3], True, ()),
        (list(CASES)[1::3], True, pytest.mark.thorough),
        (list(CASES)[2::3], True, pytest.mark.thorough),
        (list(CASES), False, pytest.mark.thorough),
    )
    for limit in ["smallest limit" if smallest else "own limit"]
    for first in range(0, len(names), SIZE)
    for part in [names[first : first + SIZE]]
]


def check_at_limits(names: list[str], smallest: bool) -> list[dict[str, Any]]:
    """Check programs at the smallest limit, or else at that of their factor."""
    found = []
    for name in names:
        if not smallest:
            found.append(check_case(CASES[name]))
            continue
        function, arguments = CASES[name].make()
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.explain(tf.function(function, autograph=False), *arguments, limit=1)
        found.append(check_case(CASES[name], given=info.value.smallest_limit))
    return found


@pytest.mark.parametrize(("names", "smallest"), PARTS)
def test_limits(names: list[str], smallest: bool) -> None:
    for one in run_fresh(check_at_limits, names, smallest):
        if one["measured"] > one["projected"]:
            (one,) = run_fresh(check_at_limits, [one["name"]], smallest)
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
        assert one["loops"], one
