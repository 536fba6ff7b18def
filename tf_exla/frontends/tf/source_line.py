"""The line of the user's program that made an op."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

_LIBRARIES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def source_line(op: Any) -> str:
    """Return `file.py:12 in function` for the innermost frame outside of installed packages.

    Where every frame is inside of one, the innermost that is not TensorFlow's; "" where unknown.
    """
    try:
        frames: Sequence[Any] = op.traceback.get_user_frames()
    except (AttributeError, TypeError):
        return ""
    frames = [frame for frame in frames if not frame.filename.startswith((_HERE, "<"))]
    own = [frame for frame in frames if not any(part in frame.filename for part in _LIBRARIES)]
    for chosen in (own, frames):
        if chosen:
            frame = chosen[-1]
            return f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
    return ""
