"""A line on stderr if planning takes long, from the logger `tf_exla` of `logging`.

It is no live display: planning runs inside displays of the user (Keras's bar, a progress of rich,
of which a terminal can have one), and nobody knows how much of a search is done.
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
    """A reporter that a function of so many nodes is still being planned."""

    function: str
    nodes: int
    _started: float = field(default_factory=time.perf_counter)
    _silent: float = SECONDS

    def __call__(self) -> None:
        """Log a line if one is due: a warning, since it must appear without settings."""
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
