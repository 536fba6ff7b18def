"""The load of other processes, which makes measurements too slow."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

QUIET = 0.1
"""The share of the cores, 0 to 1, that other processes may use while rates are measured.

Work on all cores then takes up to 1 / (1 - 0.1) = 1.11 of its time. Estimates of the cost model are
right to a third, so only three times that error would change which plan is chosen.
"""
PROBE = 1.0
"""Seconds for which the load is sampled beforehand: 100 of the kernel's ticks on each core."""

_STAT = Path("/proc/stat")


class OtherLoad:
    """The share of the cores that other processes have used since this object was created."""

    def __init__(
        self,
        busy: Callable[[], float | None] | None = None,
        own: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.perf_counter,
        cores: int | None = None,
    ) -> None:
        """Start. `busy`, `own`: return the busy seconds of all `cores`, and of this process."""
        self._busy, self._own, self._clock = busy or busy_seconds, own, clock
        self._cores = cores or len(_cores())
        self._start = self._busy(), own(), clock()

    def share(self) -> float | None:
        """Return the share, 0 to 1, or None if the system does not report it."""
        busy, own, clock = self._busy(), self._own(), self._clock()
        busy_before, own_before, clock_before = self._start
        if busy is None or busy_before is None or clock <= clock_before:
            return None
        others = (busy - busy_before) - (own - own_before)
        return min(1.0, max(0.0, others / ((clock - clock_before) * self._cores)))


def busy_seconds() -> float | None:
    """Return the seconds that the cores of this process were busy since the system started.

    All processes count. On a virtual machine, time taken away by the host ("steal") counts too.
    """
    if _STAT.exists():
        names = {f"cpu{number}" for number in _cores()}
        ticks = 0
        for line in _STAT.read_text().splitlines():
            name, *fields = line.split()
            if name in names:
                # user nice system idle iowait irq softirq steal; guests are counted in user.
                numbers = [int(field) for field in fields[:8]]
                ticks += sum(numbers) - numbers[3] - numbers[4]
        return ticks / os.sysconf("SC_CLK_TCK")
    try:
        import psutil
    except ImportError:
        return None
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0))


def _cores() -> set[int]:
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
