"""The peak of one call: the growth of this process's resident set at its high-water mark.

For the processes whose environment lets freed blocks leave at once (`FREED_BLOCKS_LEAVE`). What is
reserved and never touched does not count, nor what a library keeps from earlier calls.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

FREED_BLOCKS_LEAVE = {
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "16384",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


def growth(call: Callable[[], Any]) -> int | None:
    """Return the bytes that one call adds; None where the system cannot tell."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = _status("VmRSS")
    if _status("VmHWM") > before + 2**20:  # some sandboxes accept the write and ignore it
        return None
    result = call()
    peak = _status("VmHWM")
    del result
    return max(0, peak - before)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(field)
