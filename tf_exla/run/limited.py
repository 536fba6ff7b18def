"""A limit for every `tf.function` that is called inside a `with` block."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from tf_exla.frontends.tf.calls.request import Limit, Request
from tf_exla.model.options import Unbounded
from tf_exla.report.report import MemoryReport
from tf_exla.run import active
from tf_exla.run.session import Session

_sessions: dict[object, Session] = {}
"""By limit and options, so that a block that is entered again finds its plans."""


class Limited(ContextDecorator):
    """The result of `limit`: a context manager and decorator."""

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
        """Return a report for each signature of each optimized function that is still alive.

        Functions of other blocks with the same limit and options are included.
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
    """Return a context manager: every outermost `tf.function` called inside stays within the limit.

    So do concrete functions, as the signatures of a SavedModel, and predictions and objectives of
    GPflow models that are called eagerly. Other eager ops do not. Functions made by `optimize` keep
    their own limit. The innermost block applies, in all threads of the process. Child processes
    that are spawned do not inherit it. A block that is entered again finds its plans. As a
    decorator, it limits the body of a function.

    Args:
        limit: As for `optimize`, like the other arguments.
        jit_compile: Whether XLA compiles the bodies of loops.
        rewrites: Families of rewrites to switch on or off.
        unbounded: "raise" or "warn", for sizes that nothing bounds.
        strict: Whether a failure of tf_exla itself is raised.
        devices: Devices among which loops are divided.

    Raises:
        MemoryLimitError: By a call inside, at tracing, if no plan is within the limit.
        ValueError: If the limit or an option has an invalid value.
        TypeError: If the limit or an option has an invalid type.
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
