"""Programs of the rest behind a cut, by the sizes that the head returned."""

from __future__ import annotations

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

    def get(self, key: Any, make: Callable[[], Made]) -> Made:
        """Return the program for `key`, made if there is none."""
        made = self._kept.get(key)
        if made is None:
            made = self._kept[key] = make()
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return made

    def __iter__(self) -> Iterator[Made]:
        return iter(list(self._kept.values()))
