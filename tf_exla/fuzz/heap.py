"""The peak of the heap during a call, by a tracer of allocations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def heap_peak(call: Callable[[], object]) -> int | None:
    """Return the bytes that are allocated at the peak of a call; None if memray is missing.

    The resident set also includes freed blocks that malloc keeps because they are below its mmap
    threshold, such as the tensors of a list of many small ones. Only the heap includes memory that
    is allocated and never touched. A call holds its limit if either measure does. oneDNN's pool is
    not traced. Patches of convolutions' gradients do not count: the kernel allocates as many as
    fill a cache, however few images there are, and touches those of the images.
    """
    try:
        import memray
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "heap")
        with memray.Tracker(record, native_traces=True):
            call()
        return _peak(memray.FileReader(record).get_allocation_records())


_LARGE = 1 << 20


def _peak(records: Iterable[Any]) -> int:
    """Return the largest total of the live blocks, in the order of the records."""
    live: dict[int, int] = {}
    total = peak = 0
    for one in records:
        total -= live.pop(one.address, 0)
        if one.size and not (one.size > _LARGE and _is_of_patches(one)):  # a free has no size
            live[one.address] = one.size
            total += one.size
            peak = max(peak, total)
    return peak


def _is_of_patches(block: Any) -> bool:
    """Return whether a kernel for a convolution's gradient allocated a block itself."""
    return any("Conv2DCustomBackprop" in frame[0] for frame in block.native_stack_trace())
