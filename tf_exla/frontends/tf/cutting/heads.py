"""The head of a program that is cut, and the programs of the rest by the sizes that it returns."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import tensorflow as tf

from tf_exla.errors import MemoryLimitError, UnboundedMemoryError
from tf_exla.frontends.tf.capture.given import Given
from tf_exla.frontends.tf.cutting.bodies import Runner
from tf_exla.frontends.tf.cutting.cuts import Cut
from tf_exla.frontends.tf.planning.planner import Planner, Runnable
from tf_exla.frontends.tf.planning.settings import Settings
from tf_exla.frontends.tf.recently_used import RecentlyUsed
from tf_exla.pipeline.plan import Plan


class _Program(Protocol):
    def ready(self, inputs: Sequence[tf.Tensor]) -> object: ...


Rest = TypeVar("Rest", bound=_Program)


class Head(Generic[Rest]):
    """The head at a cut, and the loop behind it if the cut has one.

    `make`: creates the program of the rest from what it is given and from settings. `refused`: the
    error of the whole program, or of its gradient, if it was cut because that exceeds the limit.
    """

    refused: MemoryLimitError | None = None

    def __init__(
        self,
        cut: Cut,
        planner: Planner,
        loop: Runner | None,
        lock: threading.RLock,
        make: Callable[[Given, Settings], Rest],
    ) -> None:
        self._cut = cut
        self._planner = planner
        self._loop = loop
        self._lock = lock
        self._make = make
        self._rests: RecentlyUsed[Rest] = RecentlyUsed()

    @cached_property
    def plan(self) -> Plan:
        """The plan of the head."""
        return self._planner.plan(self._cut.head, head=True, awaited=self._cut.awaited)

    @cached_property
    def function(self) -> Runnable:
        """The head, restored."""
        return self._planner.restore(self.plan)

    @property
    def plans(self) -> list[Plan]:
        """The plans of the head and of the bodies of its loop that have run."""
        return [self.plan, *([] if self._loop is None else self._loop.plans)]

    @property
    def planned_loop(self) -> list[Plan]:
        """The plans of the head and of the loop behind it; empty without a loop.

        If all sizes in the bodies are static, they are planned even before the loop runs.
        """
        if self._loop is None:
            return []
        self._loop.prepare(self.plan.resident)
        return self.plans

    @property
    def waits_for_call(self) -> bool:
        """Whether there is a loop whose bodies only a call can plan."""
        return self._loop is not None and len(self.plans) == 1

    @property
    def is_differentiable(self) -> bool:
        """Whether the gradient of the rest is that of the program: a dataset's loop has none."""
        return self._cut.is_differentiable

    @property
    def only_reads(self) -> bool:
        """Whether neither the head nor its loop has an effect."""
        return self._loop is None and self._cut.only_reads

    @property
    def rests(self) -> list[Rest]:
        """The programs of the rest that are kept, the least recently used first."""
        with self._lock:
            return list(self._rests)

    def run(
        self, arguments: Sequence[tf.Tensor], given: Given, before: Sequence[tf.Tensor]
    ) -> tuple[Given, list[tf.Tensor]]:
        """Run the head and its loop; return what the rest is given, and the values.

        `given`, `before`: the same from the heads before this one.
        """
        try:
            values = self.function(arguments)
        except tf.errors.OutOfRangeError:
            self._run_beside(arguments)
            raise
        if self._loop is not None:
            operands, beside = self._cut.take_operands(values, self.plan.resident)
            values = self._cut.looped(values, self._loop.run(operands, beside))
        return self._cut.then(given, before, values)

    def _run_beside(self, arguments: Sequence[tf.Tensor]) -> None:
        """Run the effects of the rest that TensorFlow runs although a dataset has ended.

        They are left out if they exceed the limit.
        """
        if self._cut.beside is not None:
            with contextlib.suppress(MemoryLimitError):
                self._beside(arguments)

    @cached_property
    def _beside(self) -> Runnable:
        assert self._cut.beside is not None
        return self._planner.restore(self._planner.plan(self._cut.beside, head=True))

    def rest(self, given: Given, inputs: Sequence[tf.Tensor]) -> Rest:
        """Return the rest of the program, specialised to the sizes that are given.

        If it cannot be rewritten, the original rest is returned, which has no limit. `inputs`:
        those of the call, which decide whether a tape may record it.
        """
        with self._lock:
            return self._rests.get(given.sizes, lambda: self._made(given, inputs))

    def _made(self, given: Given, inputs: Sequence[tf.Tensor]) -> Rest:
        settings = self._planner.settings
        settings = dataclasses.replace(settings, refused=self.refused or settings.refused)
        try:
            rest = self._make(given, settings)
            rest.ready(inputs)
            return rest
        except MemoryLimitError:
            raise
        except Exception as error:
            # A negative size, which has no bound, is an error of the user's program. It is raised
            # when the rest runs.
            if not given.has_negative_values:
                settings.guard.take(settings.name, error)
            given = dataclasses.replace(given, shapes={}, values={})
            return self._make(given, settings.without_limit())


def first_within(heads: Iterable[Head[Rest]], error: Exception, warns: bool) -> Head[Rest] | None:
    """Return the first head that stays within the limit, or None.

    `error`: why the whole program has no plan. If it is a `MemoryLimitError` and all heads are
    refused, it then names the smallest limit of all heads, too. If it is an `UnboundedMemoryError`,
    the `MemoryLimitError` of the head that needs the least is raised instead, unless `warns`: the
    user prefers a warning about unbounded sizes.
    """
    refused: MemoryLimitError | None = None
    for head in heads:
        try:
            _ = head.function
        except UnboundedMemoryError:
            continue
        except MemoryLimitError as found:
            if refused is None or found.smallest_limit < refused.smallest_limit:
                refused = found
        else:
            if isinstance(error, MemoryLimitError):
                head.refused = copy.copy(error)  # without the frames of its traceback
            return head
    if refused is None:
        return None
    if isinstance(error, UnboundedMemoryError) and not warns:
        raise refused
    if isinstance(error, MemoryLimitError) and refused.smallest_limit < error.smallest_limit:
        error.may_work_in_parts(refused.smallest_limit)
    return None
