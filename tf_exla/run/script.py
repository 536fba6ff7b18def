"""Optimizing every outermost `tf.function` of a program whose code is not changed."""

from __future__ import annotations

import contextlib
import json
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.util import traceback_utils

from tf_exla.api import OptimizedFunction
from tf_exla.byte_size import format_bytes
from tf_exla.frontends.tf.capture import CaptureError
from tf_exla.frontends.tf.fallback import Guard, Listener
from tf_exla.frontends.tf.outside import Outside, watched
from tf_exla.frontends.tf.request import Request
from tf_exla.model.options import Unbounded
from tf_exla.pipeline.plan import Plan
from tf_exla.run.integrations import integrations

Function = polymorphic_function.Function

_WHOLE = "XLA compiles it as a whole (jit_compile=True)"


@dataclass
class Session(Listener):
    """What was optimized, and what runs as it was, with the reason.

    `keep`: whether the functions live on, so that `write` can report on them. `peaks`: the largest
    projected peaks of each function in bytes, as it was and as it is. `outside`: the largest tensor
    that was made outside of functions.
    """

    limit: str | None
    strict: bool
    keep: bool = False
    peaks: dict[str, tuple[int, int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    outside: Outside = field(init=False)
    _functions: weakref.WeakKeyDictionary[Any, OptimizedFunction] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    _kept: list[OptimizedFunction] = field(default_factory=list)

    def __post_init__(self) -> None:
        limit = "auto" if self.limit is None else self.limit
        unbounded: Unbounded = "raise" if self.strict else "warn"
        self._request = Request.of(limit, unbounded=unbounded, strict=self.strict)
        self.outside = Outside(self.limit_bytes)

    def call(self, original: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a `tf.function`: optimized where it is the outermost one."""
        if not tf.executing_eagerly():
            return original(function, *args, **kwargs)
        if function._jit_compile:
            if self.strict:
                raise CaptureError(f"{_name(function)}: {_WHOLE}")
            if _name(function) not in self.refused:
                self.failed(_name(function), _WHOLE)
            return original(function, *args, **kwargs)
        return self.optimized(function)(*args, **kwargs)

    def failed(self, function: str, reason: str) -> None:
        """Say that a function runs as it was."""
        self.refused[function] = reason
        print(f"tf_exla: {function} runs as it was: {reason}", file=sys.stderr)

    def planned(self, function: str, plan: Plan) -> None:
        """Note the peaks of a plan."""
        before, after = self.peaks.get(function, (0, 0))
        self.peaks[function] = (
            max(before, plan.projected_peak_before),
            max(after, plan.projected_peak),
        )

    def summary(self) -> str:
        """Return what was done, in one line."""
        parts = [_count(len(self.peaks), "function") + " optimized"]
        if self.peaks:
            before = format_bytes(max(before for before, _ in self.peaks.values()))
            after = format_bytes(max(after for _, after in self.peaks.values()))
            parts[0] += f", largest projected peak {before} before and {after} after"
        if self.refused:
            parts.append(f"{_count(len(self.refused), 'function')} ran as before: ")
            parts[-1] += ", ".join(self.refused)
        if self.outside.sentence:
            parts.append(self.outside.sentence)
        return f"tf_exla: {'; '.join(parts)}"

    def write(self, path: Path) -> None:
        """Write the reports: as JSON where the name ends so, else as text."""
        reports = [report for one in self._kept for report in one.reports()]
        if path.suffix == ".json":
            content = {"functions": [r.to_dict() for r in reports], "as_it_was": self.refused}
            path.write_text(json.dumps(content, indent=2) + "\n")
            return
        lines = [str(report) for report in reports]
        lines += [f"{name} ran as it was: {why}" for name, why in self.refused.items()]
        path.write_text("\n\n".join(lines) + "\n")

    def limit_bytes(self) -> int:
        """Return the limit in bytes, now."""
        return self._request.bytes()

    def optimized(self, function: Any) -> OptimizedFunction:
        """Return a `tf.function` optimized: the same object each time."""
        known = self._functions.get(function)
        if known is None:
            # Without `keep` a function that the program drops is dropped, and what it captured.
            seen = function if self.keep else weakref.proxy(function)
            known = OptimizedFunction(seen, self._request, Guard(self.strict, self))
            self._functions[function] = known
            if self.keep:
                self._kept.append(known)
        return known


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or function)


@contextlib.contextmanager
def optimized_functions(
    limit: str | None, *, strict: bool = False, keep: bool = False
) -> Iterator[Session]:
    """Optimize every outermost `tf.function` that is called meanwhile.

    What cannot be optimized runs as it was, with a line on stderr; with `strict` it raises. `keep`:
    whether the session's `write` will be asked for. Raises `MemoryLimitError` from the call whose
    limit cannot be held.
    """
    session = Session(limit, strict, keep)
    original = Function.__call__

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return session.call(original, self, args, kwargs)

    Function.__call__ = call
    try:
        with integrations(session.optimized, session.limit_bytes), watched(session.outside):
            yield session
    finally:
        Function.__call__ = original
