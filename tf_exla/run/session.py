"""Optimization of the user's functions when they are called, without a change to them."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from tf_exla.api import OptimizedFunction
from tf_exla.frontends.tf.calls.request import Request
from tf_exla.frontends.tf.planning.fallback import Guard, Listener
from tf_exla.frontends.tf.source_line import defined_at
from tf_exla.frontends.tf.tracing import is_tracing
from tf_exla.model.settings import SETTINGS
from tf_exla.report.report import MemoryReport


class Session(Listener):
    """The outermost `tf.function`s of a program, each optimized once, for one request.

    `keep`: whether functions that the program drops are kept alive for their reports at the end.
    """

    def __init__(self, request: Request, keep: bool = False) -> None:
        self._request = request
        self._keep = keep
        self._functions: weakref.WeakKeyDictionary[Any, OptimizedFunction] = (
            weakref.WeakKeyDictionary()
        )
        self._kept: list[OptimizedFunction] = []
        self.unchanged: set[str] = set()  # labels of functions that are left to XLA
        self._concrete: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def call(self, original: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a `tf.function`, optimized if it is outermost; `original` calls it unchanged."""
        if _is_inner():
            return original(function, *args, **kwargs)
        optimized = self.optimized(function)
        if function._jit_compile:
            if optimized.needs_at_most(1 / SETTINGS.xla_margin, args, kwargs):
                self.unchanged.add(optimized.label)
                return original(function, *args, **kwargs)
            self.unchanged.discard(optimized.label)
        return optimized(*args, **kwargs)

    def call_concrete(self, original: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a concrete function, such as a signature of a SavedModel, as `call` does."""
        if _is_inner():
            return original(function, *args, **kwargs)
        known = self._concrete.get(function)
        if known is None:
            known = self._concrete[function] = _called(original, function)
        return self.optimized(known)(*args, **kwargs)

    def limit_bytes(self) -> int:
        """Return the current limit in bytes."""
        return self._request.bytes()

    def optimized(self, function: Any) -> OptimizedFunction:
        """Return the optimized function of a `tf.function`, the same object each time."""
        known = self._functions.get(function)
        if known is None:
            # Without `keep`, a function that the program drops is freed, with its captures.
            seen = function if self._keep else weakref.proxy(function)
            known = OptimizedFunction(seen, self._request, self._guard(function))
            self._functions[function] = known
            if self._keep:
                self._kept.append(known)
        return known

    def _guard(self, function: Any) -> Guard:
        return Guard(self._request.strict, self, defined_at(function))

    def reports(self) -> list[MemoryReport]:
        """Return a report for each specialisation of each function that is still alive."""
        functions = self._kept if self._keep else list(self._functions.values())
        changed = (one for one in functions if one.label not in self.unchanged)
        return [report for one in changed for report in one.reports()]


def _is_inner() -> bool:
    """Return whether another function is traced; in an init_scope, tracing goes on."""
    return not tf.executing_eagerly() or is_tracing()


def _called(original: Any, function: Any) -> Any:
    """Return a `tf.function` that calls a concrete function, which it does not keep alive."""
    known = weakref.ref(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        return original(known(), *args, **kwargs)

    call.__name__ = function.name.decode() if isinstance(function.name, bytes) else function.name
    return tf.function(call, autograph=False)
