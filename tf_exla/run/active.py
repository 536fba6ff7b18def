"""The sessions of this process: calls of TensorFlow's functions go to the one that began last.

Calls are redirected in all threads, as long as there is a session. Sessions may end in any order,
as they do if several threads begin their own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
from tensorflow.python.util import traceback_utils

from tf_exla.run.integrations import integrations
from tf_exla.run.session import Session

Function = polymorphic_function.Function
ConcreteFunction = concrete_function.ConcreteFunction

_lock = threading.Lock()
_sessions: list[Session] = []
_patches = contextlib.ExitStack()


def begin(session: Session) -> None:
    """Redirect calls to a session."""
    with _lock:
        _sessions.append(session)
        if len(_sessions) > 1:
            return
        try:
            _patches.enter_context(_redirected(Function, Session.call))
            _patches.enter_context(_redirected(ConcreteFunction, Session.call_concrete))
            _patches.enter_context(integrations(_latest))
        except BaseException:
            _sessions.clear()
            _patches.close()
            raise


def end(session: Session) -> None:
    """Remove the last entry of a session, which may have begun several times."""
    with _lock:
        at = max(k for k, one in enumerate(_sessions) if one is session)
        del _sessions[at]
        if not _sessions:
            _patches.close()


def _latest() -> Session | None:
    """Return the session that takes the calls; None if another thread has just ended it."""
    try:
        return _sessions[-1]
    except IndexError:
        return None


@contextlib.contextmanager
def _redirected(kind: Any, take: Callable[..., Any]) -> Iterator[None]:
    """Let the session `take` calls of a kind of functions."""
    original = kind.__call__

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = _latest()
        if session is None:
            return original(self, *args, **kwargs)
        return take(session, original, self, args, kwargs)

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original
