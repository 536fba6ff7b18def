"""The peak of the heap during a call, by a tracer of allocations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def heap_peak(call: Callable[[], object]) -> int | None:
    """Return the bytes that are allocated at the peak of a call; None if memray is missing.

    The resident set also includes freed blocks that malloc keeps because they are below its mmap
    threshold, such as the tensors of a list of many small ones. Only the heap includes memory that
    is allocated and never touched. A call holds its limit if either measure does. oneDNN's pool is
    not traced.
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
