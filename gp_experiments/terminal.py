"""The console that commands write to."""

from __future__ import annotations

import os

from rich.console import Console

FULL_WIDTH = 500
"""Characters per line in a file or a pipe: more than any table here has, so that none is cut."""


def new_console() -> Console:
    """Return a console for standard output; in a file or a pipe no table is cut to 80 columns.

    If the variable COLUMNS is set, it is the width.
    """
    console = Console()
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(width=FULL_WIDTH)
