"""The next limit to plan for, after XLA compiled a plan to a module that needs too much.

XLA orders a program and assigns its buffers itself, so a plan's projection is only a guess.
"""

from __future__ import annotations

from typing import NamedTuple

TRIES = 4
"""Modules that are compiled before the smallest plan is."""
_LEAST_SLOPE = 0.25
"""The next try subtracts at most four times the excess."""
_CLOSER = 0.97
"""Chunks change in steps, so the next try aims at a little less."""


class Try(NamedTuple):
    """What a call of a plan allocates in bytes: as projected, and by its module's buffers."""

    projected: int
    needed: int


def next_room(room: int, before: Try | None, now: Try) -> int:
    """Return the working set to plan for, so that the module of the plan needs at most `room`.

    `before`, `now`: the last two tries. After one, what a module needs is taken to be in proportion
    to what is projected. Buffers that do not shrink with the chunks show after two.
    """
    projected, needed = now
    if before is None or before.projected <= projected or before.needed <= needed:
        return int(_CLOSER * projected * room / needed)
    slope = (before.needed - needed) / (before.projected - projected)
    return int(_CLOSER * (projected - (needed - room) / max(slope, _LEAST_SLOPE)))


def between(room: int, small: Try, large: Try) -> int:
    """Return the working set to plan for between a try that needs less than `room` and one above.

    Returns that of `small` if the larger plan does not need more.
    """
    if large.needed <= small.needed:
        return small.projected
    share = max(0.0, _CLOSER * room - small.needed) / (large.needed - small.needed)
    return int(small.projected + share * (large.projected - small.projected))
