"""The line of the user's program that an equation of a jaxpr comes from."""

from __future__ import annotations

import os
from typing import Any

from tf_exla.caller import HERE, is_users
from tf_exla.frontends.jax.compat import user_frames


def source_line(info: Any) -> str:
    """Return `file.py:12 in function` for the innermost frame outside of installed packages.

    If all frames are in installed packages, it is for the innermost frame outside of JAX; "" if
    there is none.
    """
    library = ""
    for frame in user_frames(info):
        if frame.file_name.startswith(HERE):
            continue
        text = f"{os.path.basename(frame.file_name)}:{frame.start_line} in {_short(frame)}"
        if is_users(frame.file_name):
            return text
        library = library or text
    return library


def _short(frame: Any) -> str:
    """Return the name of a frame's function, without enclosing functions and classes."""
    return str(frame.function_name).rpartition(".<locals>.")[2].rpartition(".")[2]
