"""Optimizing every outermost `tf.function` of a program whose code is not changed."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from tf_exla.api import OptimizedFunction, optimize
from tf_exla.frontends.tf.capture import CaptureError

Function = polymorphic_function.Function


@dataclass
class Session:
    """What was optimized, and what runs as it was, with the reason."""

    limit: str | None
    strict: bool
    optimized: dict[Any, OptimizedFunction] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _as_it_was: set[Any] = field(default_factory=set)

    def call(self, original: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a `tf.function`: optimized where it is the outermost one."""
        if not tf.executing_eagerly() or function in self._as_it_was:
            return original(function, *args, **kwargs)
        if function._jit_compile:
            return self._refuse(
                original, function, args, kwargs, "XLA compiles it as a whole (jit_compile=True)"
            )
        optimized = self.optimized.get(function)
        if optimized is None:
            optimized = self.optimized[function] = optimize(
                function, self.limit or "auto", unbounded="raise" if self.strict else "warn"
            )
        try:
            optimized.prepare(*args, **kwargs)
        except CaptureError as error:
            del self.optimized[function]
            return self._refuse(original, function, args, kwargs, str(error))
        return optimized(*args, **kwargs)

    def _refuse(self, original: Any, function: Any, args: Any, kwargs: Any, why: str) -> Any:
        if self.strict:
            raise CaptureError(f"{_name(function)}: {why}")
        self._as_it_was.add(function)
        self.refused[_name(function)] = why
        print(f"tf_exla: {_name(function)} runs as it was: {why}", file=sys.stderr)
        return original(function, *args, **kwargs)

    def write(self, path: Path) -> None:
        """Write the reports: as JSON where the name ends so, else as text."""
        reports = [report for one in self.optimized.values() for report in one.reports()]
        if path.suffix == ".json":
            content = {"functions": [r.to_dict() for r in reports], "as_it_was": self.refused}
            path.write_text(json.dumps(content, indent=2) + "\n")
            return
        lines = [str(report) for report in reports]
        lines += [f"{name} ran as it was: {why}" for name, why in self.refused.items()]
        path.write_text("\n\n".join(lines) + "\n")


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or function)


@contextlib.contextmanager
def optimized_functions(limit: str | None, *, strict: bool = False) -> Iterator[Session]:
    """Optimize every outermost `tf.function` that is called meanwhile.

    What cannot be optimized runs as it was, with a line on stderr; with `strict` it raises
    `CaptureError`. Raises `MemoryLimitError` from the call whose limit cannot be held.
    """
    session = Session(limit, strict)
    original = Function.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return session.call(original, self, args, kwargs)

    Function.__call__ = call
    try:
        yield session
    finally:
        Function.__call__ = original
