"""Checks of arguments: errors quote the wrong argument and suggest the right word."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'limit'?" if a known name is close to `name`, else ""."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_switch(name: str, value: object, *, optional: bool = False) -> None:
    """Raise TypeError unless `value` is True or False, or None if `optional`."""
    if isinstance(value, bool) or (optional and value is None):
        return
    choice = "True, False or None" if optional else "True or False"
    raise TypeError(f"{name} must be {choice}, got {value!r}")


def check_function(fn: object) -> None:
    """Raise TypeError if `fn`, the first argument, is not callable, such as a limit."""
    if not callable(fn):
        hint = f"; write limit={fn!r}" if isinstance(fn, (str, int, float)) else ""
        raise TypeError(f"the first argument is the function, not {fn!r}{hint}")


def check_names(fn: Callable[..., Any], names: Collection[str], ours: Collection[str]) -> None:
    """Raise TypeError if `fn` has no argument for one of `names`; `ours` are suggested too."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for name in names:
        if name not in parameters:
            function = getattr(fn, "__name__", repr(fn))
            hint = did_you_mean(name, [*ours, *parameters])
            raise TypeError(f"{function} takes no argument {name!r}{hint}")
