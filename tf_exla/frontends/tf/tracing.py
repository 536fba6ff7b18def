"""Whether an optimized function is being traced. Its plan includes the functions that it calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Tracing(threading.local):
    """The number of nested traces of optimized functions in this thread."""

    depth = 0


_tracing = _Tracing()


def is_tracing() -> bool:
    """Return whether this thread traces an optimized function."""
    return _tracing.depth > 0


@contextmanager
def tracing() -> Iterator[None]:
    """Mark what this thread traces as parts of an optimized function."""
    _tracing.depth += 1
    try:
        yield
    finally:
        _tracing.depth -= 1
