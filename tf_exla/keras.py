"""A Keras callback that holds `fit`, `evaluate` and `predict` to a memory limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

import keras
import tensorflow as tf

from tf_exla.frontends.tf.calls.request import Limit, Request
from tf_exla.model.options import Unbounded
from tf_exla.report.report import MemoryReport
from tf_exla.run.limited import Limited
from tf_exla.run.session import Session

__all__ = ["MemoryLimit"]

_FUNCTIONS = ("train_function", "test_function", "predict_function")
"""Functions that Keras calls for each batch. `make_...` compiles one if the model has none."""


class _NotMade:
    """A function that a run has not made yet. `compile` sets None instead."""

    def __bool__(self) -> bool:
        return False


_NOT_MADE = _NotMade()
_LIMITED, _MAKES = "_runs_within_limit", "_makes_without_limit"
"""Attributes of functions that stay within the limit of a run, and of those that make these."""

_ENDS = (StopIteration, tf.errors.OutOfRangeError)
"""Exceptions by which a step reports that there is no more data."""


class _Limited:
    """A model whose functions run within a session, until `restore`.

    It refers to the model weakly, and to no callback: a callback that nobody needs any more is
    finalized, which restores the model. `functions`: takes those that run, for reports. `run`: the
    kind of run that it is for, once that is known. Runs may be nested, as an evaluation by a
    callback of `fit`; then the model goes back to how the outer run had it.
    """

    def __init__(self, model: Any, session: Session, functions: list[Any]) -> None:
        self.run = ""
        self._model = ref(model)
        self._session = session
        self._functions = functions
        self.done = False
        self._outer = _limited.get(model)
        _limited[model] = self
        names = (*_FUNCTIONS, *(f"make_{name}" for name in _FUNCTIONS))
        self._before = {name: vars(model)[name] for name in names if name in vars(model)}
        self._jit_compile, model.jit_compile = model.jit_compile, False
        for name in _FUNCTIONS:
            make = getattr(model, f"make_{name}")
            setattr(model, name, _NOT_MADE)
            setattr(model, f"make_{name}", self._maker(getattr(make, _MAKES, make), name))

    def is_of(self, model: Any) -> bool:
        return self._model() is model

    def restore(self) -> None:
        """Restore the model, unless an inner run is not over."""
        model = self._model()
        self.done = True
        while model is not None and (last := _limited.get(model)) is not None and last.done:
            last._put_back(model)

    def _put_back(self, model: Any) -> None:
        del _limited[model]
        if self._outer is not None:
            _limited[model] = self._outer
        for name in _FUNCTIONS:
            if getattr(model, name) is not None:  # else it was compiled again
                setattr(model, name, self._before.get(name))
            delattr(model, f"make_{name}")
            if f"make_{name}" in self._before:
                setattr(model, f"make_{name}", self._before[f"make_{name}"])
        model.jit_compile = self._jit_compile

    def _maker(self, make: Callable[..., None], name: str) -> Callable[..., None]:
        """Return a function that calls the model's `make_...` and wraps its result in the limit."""

        def make_within(force: bool = False) -> None:
            model = self._model()
            if not getattr(model, name) or force:
                function = self._made(model, make, name, force)
                self._functions.append(function)
                if getattr(model, "steps_per_execution", 1) > 1:
                    function = _step_by_step(function)
                setattr(model, name, self._within(function))

        setattr(make_within, _MAKES, make)
        return make_within

    def _strictest(self) -> Session:
        """Return the session with the smallest limit, of this run and those around it."""
        outer = None if self._outer is None else self._outer._strictest()
        if outer is None or self._session.limit_bytes() <= outer.limit_bytes():
            return self._session
        return outer

    def _made(self, model: Any, make: Callable[..., None], name: str, force: bool) -> Any:
        """Return the model's function without a limit, which later runs find, with their plans.

        A model whose functions XLA compiles as a whole has other functions within a limit.
        """
        before, again = self._before.get(name), getattr(model, name) is None
        if before and not (force or again or self._jit_compile or hasattr(before, _LIMITED)):
            return before
        setattr(model, name, None)
        make(force)
        made = getattr(model, name)
        if again or before is None:  # the function before has been compiled again, or never was
            self._before[name] = None if self._jit_compile else made
        return made

    def _within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        block = Limited(self._strictest())

        @functools.wraps(function)
        def step(*args: Any) -> Any:
            try:
                with block:
                    return function(*args)
            except _ENDS:
                raise
            except BaseException:  # Keras does not report errors to callbacks
                ended: _Limited | None = self
                while ended is not None and ended.run == self.run:  # those of other callbacks, too
                    ended.restore()
                    ended = ended._outer
                raise

        setattr(step, _LIMITED, True)
        return step


def _step_by_step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a step for each batch, if Keras's function can do so.

    Otherwise a loop of the graph reads the batches, and their sizes are unknown in it.
    """
    code = getattr(function, "__code__", None)
    if code is None or "multi_step_on_iterator" not in code.co_freevars:
        return function

    @functools.wraps(function)
    def steps(batches: Any) -> Any:
        if not isinstance(batches, tf.data.Iterator):
            return function(batches)
        # Keras loops over what is no iterator of TensorFlow itself; it expects one batch at least.
        return function(chain([next(batches)], batches))

    return steps


_limited: WeakKeyDictionary[Any, _Limited] = WeakKeyDictionary()
"""By model: the innermost run, until the model is restored."""


def _restore_all(runs: list[_Limited]) -> None:
    while runs:
        runs.pop().restore()


class MemoryLimit(keras.callbacks.Callback):  # type: ignore[misc]
    """A callback that holds each step of a model to a limit in `fit`, `evaluate` or `predict`.

    The peak includes a batch, the weights, the slots of the optimizer, and what the step allocates.
    Each batch size has its own plan, since the last batch may be smaller. While the callback is
    active, Keras does not compile whole steps with XLA (`jit_compile`), since XLA would plan their
    memory. Parts of loops are still compiled. Afterwards the model is restored; its functions,
    which hold no limit by themselves, stay: the next run finds its plans. The model may be compiled
    again in between. Keras does not report errors of other callbacks: after one, the model is
    restored by the next run with this callback, or when nothing refers to this callback.

    Of several callbacks, and of runs within runs, the smallest limit holds.

    Args:
        limit: As for `tf_exla.optimize`, like the other arguments.
        jit_compile: Whether XLA compiles the bodies of loops.
        rewrites: Families of rewrites to switch on or off.
        unbounded: "raise" or "warn", for sizes that nothing bounds.
        strict: Whether a failure of tf_exla itself is raised.

    Raises:
        MemoryLimitError: By the first step with a batch size for which no plan is within the limit.
        ValueError: By a model that runs eagerly, since it has no graph to rewrite.
    """

    def __init__(
        self,
        limit: Limit = "auto",
        *,
        jit_compile: bool | None = None,
        rewrites: Mapping[str, bool] | bool | None = None,
        unbounded: Unbounded = "raise",
        strict: bool = False,
    ) -> None:
        super().__init__()
        self._session = Session(
            Request.of(limit, jit_compile, rewrites=rewrites, unbounded=unbounded, strict=strict)
        )
        self._runs: list[_Limited] = []  # the innermost is the last
        self._functions: list[Any] = []
        finalize(self, _restore_all, self._runs)

    def set_model(self, model: Any) -> None:
        """Begin a run. Keras calls this before it makes its functions."""
        super().set_model(model)
        if model.run_eagerly:
            raise ValueError("a limit is held by rewriting graphs, and run_eagerly=True makes none")
        self._forget_ended()
        if not self._runs:
            self._functions.clear()
        self._runs.append(_Limited(model, self._session, self._functions))

    def reports(self) -> list[MemoryReport]:
        """Return a report for each function and each batch size of the last run."""
        return self._session.reports()

    def on_train_begin(self, logs: Any = None) -> None:
        self._begin("train")

    def on_test_begin(self, logs: Any = None) -> None:
        self._begin("test")

    def on_predict_begin(self, logs: Any = None) -> None:
        self._begin("predict")

    def on_train_end(self, logs: Any = None) -> None:
        self._end("train")

    def on_test_end(self, logs: Any = None) -> None:
        self._end("test")

    def on_predict_end(self, logs: Any = None) -> None:
        self._end("predict")

    def _begin(self, run: str) -> None:
        if self._runs and not self._runs[-1].run:  # else it is the validation of `fit`
            self._runs[-1].run = run

    def _forget_ended(self) -> None:
        """Forget inner runs that ended by an error of a step."""
        while self._runs and self._runs[-1].done:
            self._runs.pop()

    def _end(self, run: str) -> None:
        self._forget_ended()
        if not self._runs or self._runs[-1].run != run:
            return
        self._runs.pop().restore()
        # A model is not fitted within its own `fit`: other runs ended by errors of other callbacks.
        while run == "train" and self._runs and self._runs[-1].is_of(self.model):
            self._runs.pop().restore()
