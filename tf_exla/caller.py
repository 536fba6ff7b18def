"""The user's code among the frames of a call, and warnings that point to it."""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of this package."""
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
"""Parts of the paths of installed packages."""
_TYPED = ("<ipython-input", "<stdin>", "<string>", "<console>", "<doctest")  # code without a file
_CONVERTED = f"{os.sep}__autograph_generated_file"  # by TensorFlow, without lines of the user
_PYTHON = sysconfig.get_paths()["stdlib"] + os.sep  # decorators of contextlib, functools


def is_users(path: str) -> bool:
    """Return whether a source file is none of this package, of an installed one, or of Python."""
    if path.startswith("<"):
        return path.startswith(_TYPED)
    ours = path.startswith((HERE, _PYTHON))
    return not ours and not any(part in path for part in (*INSTALLED, _CONVERTED))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's innermost line, or at that of the caller if there is none."""
    frame = sys._getframe(1)
    while not is_users(frame.f_code.co_filename):
        if frame.f_back is None:
            warnings.warn(message, category, stacklevel=2)
            return
        frame = frame.f_back
    scope = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=scope.get("__name__") or "__main__",  # None: nothing is printed
        registry=scope.setdefault("__warningregistry__", {}),
    )
