"""The numbers that a script prints with and without a limit, and checks of its plans' peaks."""

from __future__ import annotations

import contextlib
import io
import runpy

import notebook_peaks
from fresh_process import run_fresh

from tf_exla.model.projection import RUNTIME_BYTES


def printed(path: str) -> list[float]:
    """Run a script without a limit; return the numbers that it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(path, run_name="__main__")
    return _numbers(output.getvalue())


def printed_within(path: str, limit: str) -> list[float]:
    """Run a script within a limit that its plans hold; return the numbers that it prints."""
    found = run_fresh(notebook_peaks.run, path, limit)
    assert not found["refused"]
    for peak in found["peaks"]:
        assert not peak["failure"]
        assert peak["measured"] <= peak["projected"] <= peak["limit"], peak
    # The limit is below the original peak, and the measured peaks are not trivial.
    most = found["peaks"][0]["limit"]
    assert max(peak["before"] for peak in found["peaks"]) > most
    assert max(peak["measured"] for peak in found["peaks"]) > (most - RUNTIME_BYTES) / 4
    return _numbers(found["printed"])


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]
