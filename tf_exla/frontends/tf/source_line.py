"""The line of the user's program that made an op."""

from __future__ import annotations

import inspect
import os
from enum import Enum, auto
from functools import cache, partial
from typing import Any

from tf_exla.caller import HERE, INSTALLED, is_users

_TRACER = "func_graph_from_py_func"
_FRAMEWORK = (f"{os.sep}tensorflow{os.sep}", f"{os.sep}keras{os.sep}", f"{os.sep}tf_keras{os.sep}")


class _Owner(Enum):
    USER = auto()
    LIBRARY = auto()  # an installed package
    FRAMEWORK = auto()  # TensorFlow or Keras, Python's library, tf_exla, and code without a file


def defined_at(function: Any) -> str:
    """Return `file.py:12` for a Python function or a `tf.function`, "" for other callables.

    Lambdas, inner functions and methods of several classes share their names.
    """
    plain = function
    while isinstance(plain, partial) or hasattr(plain, "python_function"):
        plain = plain.func if isinstance(plain, partial) else plain.python_function
    code = getattr(inspect.unwrap(plain), "__code__", None)
    return "" if code is None else f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


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
    if is_users(filename):
        return _Owner.USER
    installed = any(part in filename for part in INSTALLED) and not filename.startswith(HERE)
    if installed and not any(part in filename for part in _FRAMEWORK):
        return _Owner.LIBRARY
    return _Owner.FRAMEWORK


def _text(frame: Any) -> str:
    return f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
