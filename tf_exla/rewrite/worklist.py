"""The worklist of the driver: the last node comes first, so consumers come before producers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from tf_exla.ir.graph import Node
from tf_exla.rewrite.context import Place, RewriteContext


class Worklist:
    """The nodes of a graph that were not visited yet, including new nodes of replacements."""

    def __init__(self, site: RewriteContext) -> None:
        self._site = site
        self._left = [(site.position[node], node) for node in site.nodes]  # in order; some removed

    def next(self) -> Node | None:
        """Return the last node that was not visited yet."""
        while self._left:
            _, node = self._left.pop()
            if node in self._site.position:
                return node
        return None

    def add(self, nodes: Iterable[Node]) -> None:
        """Add the nodes that a replacement has made; restore the order if it reordered nodes."""
        places = self._site.position
        if self._site.reordered is not None:
            first, last = self._site.reordered
            start = bisect_left(self._left, first, key=_place)
            end = bisect_right(self._left, last, key=_place)
            alive = [(places[node], node) for _, node in self._left[start:end] if node in places]
            self._left[start:end] = sorted(alive, key=_place)
        for node in nodes:
            insort(self._left, (places[node], node), key=_place)


def _place(entry: tuple[Place, Node]) -> Place:
    return entry[0]
