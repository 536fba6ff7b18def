"""The next limit to plan for, after XLA compiled a plan to a module that needs too much memory.

XLA orders a program and assigns its buffers itself, so a plan's projection is only an estimate.
"""

from __future__ import annotations

from typing import NamedTuple

TRIES = 4
"""The number of modules that are compiled before that of the smallest plan."""
_LEAST_SLOPE = 0.25
"""The least assumed ratio of needed to projected bytes saved, which bounds the next step: it
subtracts at most four times the excess."""
_CLOSER = 0.97
"""A factor on the next target, which is a little lower since chunks change in steps."""


class Try(NamedTuple):
    """The bytes that a call of a plan allocates: as projected, and as its compiled module needs."""

    projected: int
    needed: int


def next_room(room: int, before: Try | None, now: Try) -> int:
    """Return the working set to plan for, so that the module of the plan needs at most `room`.

    `before`, `now`: the last two tries. After one try, the needed bytes are assumed to be
    proportional to the projected ones. After two, a linear relation is fitted, which takes account
    of buffers that do not shrink with the chunks.
    """
    projected, needed = now
    if before is None or before.projected <= projected or before.needed <= needed:
        return int(_CLOSER * projected * room / needed)
    slope = (before.needed - needed) / (before.projected - projected)
    return int(_CLOSER * (projected - (needed - room) / max(slope, _LEAST_SLOPE)))


def between(room: int, small: Try, large: Try) -> int:
    """Return the working set to plan for between a try that needs less than `room` and one above.

    If the larger plan does not need more, return the projected bytes of `small`.
    """
    if large.needed <= small.needed:
        return small.projected
    share = max(0.0, _CLOSER * room - small.needed) / (large.needed - small.needed)
    return int(small.projected + share * (large.projected - small.projected))
