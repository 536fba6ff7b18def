"""Ticks of a logarithmic axis as plain numbers, however short the axis is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis

_FEW_DECADES = 3
"""Fewer decades have labels at 1, 2 and 5 of each, at most nine; more only at powers of ten."""


def readable_ticks(axis: Axis) -> None:
    """Set the ticks of a logarithmic axis that has its final limits.

    By default, matplotlib writes "6x10^1" if less than a decade is shown.
    """
    from matplotlib.ticker import AutoLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    if decades < 1:
        axis.set_major_locator(AutoLocator())
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < _FEW_DECADES else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    if decades < _FEW_DECADES:
        axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def number(value: float) -> str:
    """Return a number without an exponent if that is short: "0.02", "60", "5,000"."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:g}"
