"""Time a call, and tell how much of the machine others used meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_STAT = Path("/proc/stat")


class Lap(NamedTuple):
    """`seconds` on the wall, `cpu_seconds` of this process, all threads.

    `others`: the share of all cores that other processes had, 0 to 1; None where unknown. It comes
    in steps of the kernel's clock tick, mostly 10 ms.
    """

    seconds: float
    cpu_seconds: float
    others: float | None


def lap(call: Callable[[], Any]) -> Lap:
    """Time one call."""
    busy, cpu, start = _busy(), time.process_time(), time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    own, all_busy = time.process_time() - cpu, _busy()
    if busy is None or all_busy is None:
        return Lap(seconds, own, None)
    cores = os.cpu_count() or 1
    return Lap(seconds, own, min(1.0, max(0.0, (all_busy - busy - own) / (seconds * cores))))


def _busy() -> float | None:
    """Return the seconds that all cores were busy since the system started."""
    if not _STAT.exists():
        return None
    # user nice system idle iowait irq softirq steal; guests are counted in user and nice.
    ticks = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
