"""Programs of the rest behind a cut, by the sizes that the head returned."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")

# The number of programs that are kept by default; the least recently used is dropped first.
_KEPT = 16


class Specialised(Generic[Made]):
    """The programs that are kept, at most `most`, the least recently used first."""

    def __init__(self, most: int = _KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[Any, Made] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Any, make: Callable[[], Made]) -> Made:
        """Return the program for `key`, made if there is none."""
        with self._lock:
            made = self._kept.get(key)
            if made is None:
                return self.replace(key, make())
            self._kept.move_to_end(key)
            return made

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
