"""A line on stderr where planning takes long, under the name `tf_exla` of `logging`.

It is a line and no live display: planning runs inside of what users display (Keras's bar, a
progress of rich, of which a terminal can have one), and no share of a search is known to be done.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

SECONDS = 2.0
"""What planning may take in silence; four times as long until the next line."""

_logger = logging.getLogger("tf_exla")


@dataclass
class Patience:
    """Says now and then that a function of so many nodes is still being planned."""

    function: str
    nodes: int
    _started: float = field(default_factory=time.perf_counter)
    _silent: float = SECONDS

    def __call__(self) -> None:
        """Write a line if it is time for one; a warning, since it must appear without settings."""
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
