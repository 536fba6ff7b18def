"""The work of planning, and how much of it may be spent on speed alone.

Work is counted in nodes that are walked to project a graph, since most of planning takes time in
proportion to these. It is not timed: a plan must not depend on the load of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class OutOfEffortError(Exception):
    """What may be spent on speed alone is used up."""


@dataclass
class Effort:
    """The work of planning one program.

    `left`: nodes that may still be walked for speed alone. `report` is called for each candidate of
    a search, to say that planning takes long.
    """

    left: float = math.inf
    report: Callable[[], None] = lambda: None
    _contexts: int = field(default=0, repr=False)  # of `for_speed` that are open

    def walk(self, nodes: int) -> None:
        """Count a walk over some nodes."""
        if self._contexts:
            self.left -= nodes

    def tick(self) -> None:
        """Note that a search looks at another candidate.

        Raises `OutOfEffortError` inside of `for_speed` if nothing is left.
        """
        self.report()
        if self._contexts and self.left < 0:
            raise OutOfEffortError

    @contextmanager
    def for_speed(self) -> Iterator[None]:
        """Count the work inside of the context as spent on speed alone; end it if nothing is left.

        A plan within the limit is known already. Contexts may be nested.
        """
        self._contexts += 1
        try:
            yield
        except OutOfEffortError:
            pass
        finally:
            self._contexts -= 1
