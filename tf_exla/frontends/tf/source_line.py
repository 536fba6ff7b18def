"""The line of the user's program that made an op."""

from __future__ import annotations

import os
from typing import Any

_TRACER = "func_graph_from_py_func"
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_FRAMEWORK = (f"{os.sep}tensorflow{os.sep}", f"{os.sep}keras{os.sep}", f"{os.sep}tf_keras{os.sep}")
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def source_line(op: Any) -> str:
    """Return `file.py:12 in function` for the innermost frame outside of installed packages.

    Only frames of the traced function count, not those of its callers. If all are in installed
    packages, return the innermost outside of TensorFlow and Keras, or "" if there is none.
    """
    try:
        frames = list(op.traceback)
    except (AttributeError, TypeError):
        return ""
    library = ""
    for frame in reversed(frames):
        if frame.name == _TRACER:
            break
        name = frame.filename
        if name.startswith((HERE, "<")):
            continue
        text = f"{os.path.basename(name)}:{frame.lineno} in {frame.name}"
        if not any(part in name for part in INSTALLED):
            return text
        if not library and not any(part in name for part in _FRAMEWORK):
            library = text
    return library
