"""A limit for everything that is called inside of a `with` block."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from tf_exla.frontends.tf.request import Limit, Request
from tf_exla.model.options import Unbounded
from tf_exla.report.report import MemoryReport
from tf_exla.run import active
from tf_exla.run.session import Session

_sessions: dict[object, Session] = {}
"""By what was asked for, so that a block that is entered again finds its plans."""


class Limited(ContextDecorator):
    """What `limit` returns: a context manager, and a decorator."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> Limited:
        active.begin(self._session)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        active.end(self._session)

    def reports(self) -> list[MemoryReport]:
        """Return a report for each signature of each function that was optimized and still lives.

        Those of other blocks with the same limit and options are among them.
        """
        return self._session.reports()


# Many parameters: those of `optimize` that are not about single tensors.
def limit(
    limit: Limit = "auto",
    *,
    jit_compile: bool | None = None,
    rewrites: Mapping[str, bool] | bool | None = None,
    unbounded: Unbounded = "raise",
    strict: bool = False,
    devices: Any = None,
) -> Limited:
    """Return a context manager: every outermost `tf.function` called inside holds the limit.

    Predictions and objectives of GPflow models that are called eagerly hold it, too; other eager
    ops do not. Functions that are optimized by themselves keep their own limit. The innermost block
    counts, in all threads of the process; child processes that start afresh know nothing of it. A
    block that is entered again finds its plans. As a decorator, a function's body is the block.

    Args:
        limit: As for `optimize`, and so are the others.
        jit_compile: Whether XLA compiles the bodies of loops.
        rewrites: Families of rewrites to switch.
        unbounded: "raise" or "warn", where nothing bounds a size.
        strict: Whether a failure of tf_exla itself is raised.
        devices: Those that loops are divided among.

    Raises:
        MemoryLimitError: By calls inside, at tracing, where no plan holds the limit.
        ValueError: For a limit or an option that is none.
        TypeError: The same, of another type.
    """
    request = Request.of(
        limit,
        jit_compile,
        rewrites=rewrites,
        unbounded=unbounded,
        strict=strict,
        devices=devices,
    )
    key = tuple(sorted({**vars(request), "rewrites": tuple(request.rewrites.items())}.items()))
    return Limited(_sessions.setdefault(key, Session(request)))
