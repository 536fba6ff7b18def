"""The peak of the heap during a call, by a tracer of allocations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def heap_peak(call: Callable[[], object]) -> int | None:
    """Return the bytes that were allocated at the peak of a call; None where memray is missing.

    The resident set also has what malloc keeps of freed blocks below its threshold for mapping, as
    the tensors of a list of many small ones are. What is allocated and never touched is in the heap
    only. A call holds its limit where either measure does. oneDNN's pool is not traced.
    """
    try:
        import memray
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "heap")
        with memray.Tracker(record):
            call()
        return int(memray.FileReader(record).metadata.peak_memory)
