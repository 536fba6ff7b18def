"""The line of the user's program that made an op."""

from __future__ import annotations

import os
import sysconfig
from enum import Enum, auto
from functools import cache
from typing import Any

_TRACER = "func_graph_from_py_func"
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_FRAMEWORK = (f"{os.sep}tensorflow{os.sep}", f"{os.sep}keras{os.sep}", f"{os.sep}tf_keras{os.sep}")
_PYTHON = sysconfig.get_paths()["stdlib"] + os.sep  # decorators of contextlib, functools
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class _Owner(Enum):
    USER = auto()
    LIBRARY = auto()  # an installed package
    FRAMEWORK = auto()  # TensorFlow or Keras, Python's library, tf_exla, and code without a file


def source_line(op: Any) -> str:
    """Return `file.py:12 in function` for the innermost frame outside of installed packages.

    Only frames of the traced function count, not those of its callers. If all are in installed
    packages, return the innermost outside of TensorFlow and Keras, or "" if there is none.
    """
    try:
        frames = op.traceback
        count = len(frames)
    except (AttributeError, TypeError):
        return ""
    library = ""
    for position in range(count - 1, -1, -1):  # a frame takes time to read, so only some are
        frame = frames[position]
        owner = _owner(frame.filename)
        if owner is _Owner.FRAMEWORK:
            if frame.name == _TRACER:
                break
        elif owner is _Owner.USER:
            return _text(frame)
        elif not library:
            library = _text(frame)
    return library


@cache
def _owner(filename: str) -> _Owner:
    if filename.startswith((HERE, "<")):
        return _Owner.FRAMEWORK
    if not any(part in filename for part in INSTALLED):
        return _Owner.FRAMEWORK if filename.startswith(_PYTHON) else _Owner.USER
    if any(part in filename for part in _FRAMEWORK):
        return _Owner.FRAMEWORK
    return _Owner.LIBRARY


def _text(frame: Any) -> str:
    return f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
