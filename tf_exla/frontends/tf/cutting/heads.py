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

    `make`: creates the program of the rest, of what is known and of settings. `refused`: the error
    of the whole program or its gradient, if that is why it is cut.
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
        """`plans` if there is a loop, also before it runs if its elements have static sizes."""
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
        """Run the head and its loop; return what the rest is given, and its values.

        `before`: the values that heads before this one have returned, as `given` says.
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
        """Run what TensorFlow runs of the rest at the end of a dataset, if that holds the limit."""
        if self._cut.beside is not None:
            with contextlib.suppress(MemoryLimitError):
                self._beside(arguments)

    @cached_property
    def _beside(self) -> Runnable:
        assert self._cut.beside is not None
        return self._planner.restore(self._planner.plan(self._cut.beside, head=True))

    def rest(self, given: Given, inputs: Sequence[tf.Tensor]) -> Rest:
        """Return the rest of the program for known sizes; if that fails, without a limit."""
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
            # Of a negative size, which has no bound, the run raises what the original raises.
            if not given.has_negative_values:
                settings.guard.take(settings.name, error)
            given = dataclasses.replace(given, shapes={}, values={})
            return self._make(given, settings.without_limit())


def first_within(heads: Iterable[Head[Rest]], error: Exception, warns: bool) -> Head[Rest] | None:
    """Return the first head that holds the limit, or None.

    `error`: that of the whole program, which then also names the smallest limit of all heads. If
    nothing bounds its sizes, and all heads that compute them exceed the limit, raise the
    `MemoryLimitError` of the head that needs the least, unless the user wants to be warned.
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
