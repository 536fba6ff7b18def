"""The largest tensor that the user's program makes outside of any function."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.python.framework import op_callbacks

from tf_exla.byte_size import format_bytes
from tf_exla.caller import HERE, is_users


class Outside:
    """A watcher of eager ops that keeps the largest result above the limit.

    A result larger than the limit exceeds it alone, whatever else is alive; smaller results are
    left to the program. Only results of ops count, and only in the thread that began to watch.
    Arrays that are converted to tensors do not count.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._largest = 0
        self.sentence = ""

    def __call__(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        """Check the results of one op; called by TensorFlow. Return them for the next callback.

        While a graph is built, TensorFlow passes a tuple, but the caller of the op expects a list.
        It gets what this returns.
        """
        if graph is not None:
            return list(outputs)
        for output in outputs or ():
            elements = output.shape.num_elements()
            size = (elements or 0) * output.dtype.size
            # Reading the limit may query the device, so it is read only for a new maximum.
            if size > self._largest:
                self._note(op_type, size)
        return outputs

    def _note(self, op_type: Any, size: int) -> None:
        if size <= self._limit():
            self._largest = size
            return
        line = _users_line()
        if line is None:
            return
        self._largest = size
        name = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        self.sentence = (
            f"largest tensor made outside of functions: {format_bytes(size)} by {name} at {line}"
        )


def _users_line() -> str | None:
    """Return `file.py:12` of the user's innermost frame, or None if this package made the call."""
    frame = sys._getframe(1)
    caller = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(HERE) and name != __file__:
            return None
        if not name.startswith("<") and name != __file__:
            caller = caller or f"{os.path.basename(name)}:{frame.f_lineno}"
            if is_users(name):
                return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return caller


@contextlib.contextmanager
def watched(outside: Outside) -> Iterator[None]:
    """Make TensorFlow call `outside` after each op of this thread in this context.

    TensorFlow's callbacks also see ops of the C fast path. Each op takes 6 us more; the smallest op
    alone takes 8 us.
    """
    op_callbacks.add_op_callback(outside)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(outside)
