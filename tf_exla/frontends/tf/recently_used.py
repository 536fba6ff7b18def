"""Programs that are kept for later calls, by key: the least recently used is dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")

# The number of programs that are kept by default.
_KEPT = 16


class RecentlyUsed(Generic[Made]):
    """The programs that are kept, at most `most`, the least recently used first."""

    def __init__(self, most: int = _KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[Any, Made] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Any, make: Callable[[], Made]) -> Made:
        """Return the program for `key`, made if there is none."""
        with self._lock:
            made = self.find(key)
            return self.replace(key, make()) if made is None else made

    def find(self, key: Any) -> Made | None:
        """Return the program for `key`, if there is one."""
        with self._lock:
            made = self._kept.get(key)
            if made is not None:
                self._kept.move_to_end(key)
            return made

    def clear(self) -> None:
        """Drop all programs."""
        with self._lock:
            self._kept.clear()

    def replace(self, key: Any, made: Made) -> Made:
        """Keep `made` for `key`, and return it."""
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return made

    def __iter__(self) -> Iterator[Made]:
        with self._lock:
            return iter(list(self._kept.values()))
