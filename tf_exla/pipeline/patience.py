"""A line on stderr if planning takes long, from the logger `tf_exla` of `logging`.

There is no live display, for two reasons. Planning runs inside displays of the user (Keras's bar, a
progress bar of rich, of which a terminal can have one). And it is not known how much of a search is
left.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

SECONDS = 2.0
"""Seconds of planning until the first line; the next comes after four times the time so far."""

_logger = logging.getLogger("tf_exla")


@dataclass
class Patience:
    """Logs that the planning of a function takes long; `nodes`: the size of its graph."""

    function: str
    nodes: int
    _started: float = field(default_factory=time.perf_counter)
    _silent: float = SECONDS

    def __call__(self) -> None:
        """Log a line if one is due: as a warning, since only these are shown by default."""
        spent = time.perf_counter() - self._started
        if spent < self._silent:
            return
        self._silent = 4 * spent
        _logger.warning(
            "planning %s (%s nodes) has taken %.0f s so far; once for each signature",
            self.function,
            format(self.nodes, ","),
            spent,
        )
