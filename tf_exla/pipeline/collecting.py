"""Fewer garbage collections while a program is planned.

A search makes hundreds of thousands of small objects, hardly any of them in cycles. Each collection
also visits all of TensorFlow's objects: at Python's threshold, a fifth of the time of planning.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000
"""The number of new objects that starts a collection; some 20 MB."""

_lock = threading.Lock()
_running = 0
_before = gc.get_threshold()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely inside; the last of several threads restores the old thresholds."""
    global _running, _before
    with _lock:
        if not _running:
            _before = gc.get_threshold()
            gc.set_threshold(OBJECTS if _before[0] else 0, *_before[1:])
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                gc.set_threshold(*_before)
