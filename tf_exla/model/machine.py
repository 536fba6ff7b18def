"""The size of the cache that a machine's cores share, which decides chunk sizes, and its name."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

CACHE = 32 << 20
"""The cache size that is assumed if Linux reports a larger one, or none. A virtual machine has few
cores of its server, but reports the cache of all of them: 480 MB for two cores. There, chunks were
chosen for caches of 4 to 128 MB. Those for 32 MB were the fastest for 14 programs, within 5 %;
those for 128 MB took up to 1.3 times as long."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def cache_bytes(folder: Path = _CACHES) -> int:
    """Return the bytes of the last-level cache, but at most `CACHE`, also if none is reported."""
    sizes = [_bytes(path) for path in folder.glob("index*/size")]
    return min(max(sizes, default=0) or CACHE, CACHE)


@cache
def machine_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return a name for this kind of machine: the processor and its number of cores."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
    except OSError:
        found = None
    model = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count() or 1} cores"


def _bytes(path: Path) -> int:
    try:
        found = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip())
    except OSError:
        return 0
    return int(found[1]) * _UNITS[found[2]] if found else 0
