"""Control flow that an eager call runs step by step: each body is a program of its own.

A plan is made for static sizes, and a graph cannot choose among plans by the sizes of its tensors.
So a body that runs on data of different sizes, such as a smaller last batch, has no plan within a
graph. An eager call, in contrast, can run the loop itself: the program is cut at the loop
(`sources.py`), and the body is specialised to the sizes of each step.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import record

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.capture import Captured
from tf_exla.frontends.tf.capture.given import Given
from tf_exla.frontends.tf.capture.random_state import RandomStates, keeps_state
from tf_exla.frontends.tf.cutting.list_bytes import Added, ListBytes, added_bytes
from tf_exla.frontends.tf.cutting.steps import Beside, Function, Step, Stepped
from tf_exla.frontends.tf.held import HANDLES, element_dtype, held_bytes
from tf_exla.frontends.tf.planning.settings import Settings
from tf_exla.frontends.tf.recently_used import RecentlyUsed
from tf_exla.frontends.tf.restore import Restored, restore
from tf_exla.ir.graph import Graph
from tf_exla.pipeline.plan import Plan


class Body(Protocol):
    """A program: see `program.py`."""

    graph: Graph
    captured: Captured

    @property
    def plans(self) -> list[Plan]: ...

    @property
    def specialised(self) -> Sequence[Body]: ...

    @property
    def head(self) -> object: ...

    def ready(self, inputs: Sequence[tf.Tensor]) -> object: ...

    def without_saves(self) -> object: ...

    def run(self, inputs: list[tf.Tensor]) -> list[tf.Tensor]: ...


class Runner:
    """Runs control flow step by step.

    `functions`: the functions that the program around it refers to. `make`: creates the program of
    a function (`Program`).
    """

    def __init__(
        self,
        stepped: Stepped,
        functions: Sequence[Any],
        settings: Settings,
        make: Callable[..., Body],
    ) -> None:
        self._stepped = stepped
        known = [function for function in functions if function is not None]
        self._named = {function.name.decode(): function for function in known}
        self._functions = tuple(known)
        self._settings = dataclasses.replace(settings, name=f"loop of {settings.name}")
        self._make = make
        self._bodies: list[_Bodies] = []
        self._lists = ListBytes()
        self._planned: dict[int, list[Function] | None] = {}
        self._restored: dict[int, Restored] = {}
        self._lock = threading.RLock()

    @property
    def plans(self) -> list[Plan]:
        """The plans of the bodies that have run."""
        kept = (body for bodies in self._bodies for body in bodies.kept)
        return [plan for body in kept for one in body.specialised for plan in one.plans]

    def prepare(self, outside: int) -> None:
        """Plan the bodies before a run, if all their sizes are static.

        `outside`: the bytes in use outside of a body.
        """
        if self._stepped.named:
            self._static(outside)

    def _static(self, outside: int) -> list[Function] | None:
        """Return the planned bodies as functions of TensorFlow, or None if a size is not static."""
        if outside not in self._planned:
            found = [bodies.static(outside) for bodies in self._created(())]
            functions = [one for one in found if one is not None]
            self._planned[outside] = functions if len(functions) == len(found) else None
        return self._planned[outside]

    def _whole(self, operands: Sequence[tf.Tensor], outside: int) -> list[tf.Tensor] | None:
        """Run TensorFlow's own loop with planned bodies; return its results.

        For small steps, this takes a quarter of the time. None if the bodies have no such plans.
        """
        functions = self._static(outside)
        if functions is None:
            return None
        if outside not in self._restored:
            graph = self._stepped.whole(functions)
            assert graph is not None
            self._restored[outside] = restore(graph, like=operands, keep=self._functions)
        captured = (tensor for function in functions for tensor in function.captured)
        return self._restored[outside]([*operands, *captured])

    def run(self, operands: list[tf.Tensor], beside: Beside) -> list[tf.Tensor]:
        """Run the control flow and return its results. Tapes record nothing.

        The list `operands` is emptied, so that its tensors can be freed before the end. `beside`:
        what else is in memory.
        """
        if not self._stepped.restarts:
            return self._run(operands, beside)
        with self._lock:  # random ops begin anew in each run
            return self._run(operands, beside)

    def _run(self, operands: list[tf.Tensor], beside: Beside) -> list[tf.Tensor]:
        created = self._created(operands)
        if self._stepped.restarts:
            for bodies in created:
                bodies.restart()
        if self._stepped.named:
            made = self._whole(operands, beside.outside(Step(0, [], operands)))
            if made is not None:
                return made
        functions = [bodies.function for bodies in created]

        def call(step: Step) -> list[tf.Tensor]:
            return created[step.position].call(step, beside)

        try:
            with record.stop_recording():
                return self._stepped.run(call, functions, operands)
        finally:
            self._lists.clear()

    def _created(self, operands: Sequence[tf.Tensor]) -> list[_Bodies]:
        if not self._bodies:
            functions = self._stepped.functions(self._named, operands)
            self._bodies = [
                _Bodies(one, self._settings, self._make, self._lists) for one in functions
            ]
        return self._bodies


# The copies of a state that a dataset's loop is assumed to hold, in addition to one copy of all
# inputs. For a scan with a state of 8 MB, 3.3 copies more than the body needs were measured.
_COPIES = 4
_NONE: Mapping[int, int] = MappingProxyType({})
# A list may first grow by 1/64 of the memory that is left. Each further plan allows for twice the
# bytes, so that six more plans use it all.
_FIRST = 64
# The number of programs of a body that are kept: the sizes of batches come again in each epoch.
_KEPT = 256


@dataclass
class _Planned:
    """A program, and the memory that its plan allows for.

    `outside`: bytes in use outside of the program. `lists`: bytes of the lists among the inputs, by
    position. `ran`: whether the program has run.
    """

    body: Body
    outside: int
    lists: Mapping[int, int]
    ran: bool = False

    @cached_property
    def has_kernels(self) -> bool:
        """Whether kernels of random ops have a state that all programs must share."""
        return any(map(keeps_state, self.body.graph.nodes))

    @cached_property
    def added(self) -> Added:
        """The bytes that a run adds to lists."""
        return added_bytes(self.body.graph)

    def allows(self, outside: int, lists: Mapping[int, int]) -> bool:
        """Return whether the plan stays within the limit with these bytes in use."""
        return outside <= self.outside and all(n <= self.lists.get(k, 0) for k, n in lists.items())


class _Bodies:
    """The programs of one function, by the sizes of its inputs."""

    def __init__(
        self,
        function: Function,
        settings: Settings,
        make: Callable[..., Body],
        lists: ListBytes,
    ) -> None:
        self.function = function
        self._bytes = lists
        self._shared = _shared(function.graph)
        passive = ("Placeholder", "Identity", "NoOp")
        self.forwards = all(op.type in passive for op in function.graph.get_operations())
        self._settings = settings
        self._make = make
        self._states = RandomStates()
        self._planned: RecentlyUsed[_Planned] = RecentlyUsed(_KEPT)
        # Whether kernels keep the states of random ops, as for those in branches. Then all sizes
        # share one program, since each program has its own kernels.
        self._with_kernels = False
        self._lists: dict[int, str] | None = None  # inputs that are lists, with their dtypes

    @property
    def kept(self) -> list[Body]:
        """The programs that are kept."""
        return [one.body for one in self._planned]

    def restart(self) -> None:
        """Make random ops begin anew, as TensorFlow's new kernels would."""
        self._states.restart()
        if any(one.has_kernels for one in self._planned):
            self._planned = RecentlyUsed(_KEPT)

    def static(self, outside: int) -> Function | None:
        """Return a planned function with the same inputs, or None if a size is not static.

        None also if the plan exceeds the limit. `outside`: bytes in use outside of the function.
        """
        if self.forwards:
            return self.function
        graph = self.function.graph
        tensors = (*graph.inputs, *graph.outputs)
        if any(one.dtype == tf.variant for one in tensors):
            return None
        if not all(one.dtype == tf.resource or one.shape.is_fully_defined() for one in tensors):
            return None
        more = _COPIES * sum(map(held_bytes, graph.outputs)) + sum(map(held_bytes, graph.inputs))
        try:
            body = self._program(graph.inputs, outside + more).body
        except MemoryLimitError:
            return None
        made = body.without_saves() if body.head is None else None
        if not isinstance(made, Restored) or self._with_kernels:
            return None
        captured = (*body.captured.constants, *made.anchors)
        return Function(made.graph, captured, made.function.name.decode(), made)

    def call(self, step: Step, beside: Beside) -> list[tf.Tensor]:
        """Run the program for the sizes of a step's inputs, and return its outputs."""
        if self.forwards:
            return [step.inputs[k] for _, k in self._shared]
        inputs = [*step.inputs, *self.function.captured]
        outside = beside.outside(step)
        if self._lists is None:
            graph = self._program(inputs, outside).body.graph
            found = ((k, element_dtype(graph, graph.inputs[k])) for k in range(len(inputs)))
            self._lists = {k: dtype for k, dtype in found if dtype}
        planned = self._program(inputs, outside, self._held(inputs))
        planned.ran = True
        held = self._held(inputs)
        made = planned.body.run(inputs)
        if held:
            added = planned.added.items()
            self._bytes.keep((made[k], held[j] + more) for k, (j, more) in added if j in held)
        # Tensors that share a buffer are returned as one object, so that it is counted once.
        return [(inputs if given else made)[k] for given, k in self._shared]

    def _held(self, inputs: Sequence[tf.Tensor]) -> dict[int, int]:
        return {k: self._bytes.of(inputs[k], dtype) for k, dtype in (self._lists or {}).items()}

    def _program(
        self, inputs: Sequence[tf.Tensor], outside: int, lists: Mapping[int, int] = _NONE
    ) -> _Planned:
        """Return the program for the sizes of `inputs`, planned anew if it needs more memory.

        `outside`, `lists`: see `_Planned`.
        """
        shapes = None
        if not self._with_kernels:
            shapes = tuple(None if t.dtype in HANDLES else tuple(t.shape) for t in inputs)
        planned = self._planned.get(shapes, lambda: self._made(inputs, shapes, outside, lists))
        if not self._with_kernels and planned.has_kernels:
            self._with_kernels = True
            return self._program(inputs, outside, lists)
        if not planned.allows(outside, lists):
            known = self._lists or {}
            lists = {k: self._bytes.sum_of(inputs[k], known[k]) for k in lists}
        if not planned.allows(outside, lists) and not self._settings.unlimited:
            again = self._grown if lists and planned.ran else self._made
            planned = self._planned.replace(shapes, again(inputs, shapes, outside, lists))
        return planned

    def _grown(
        self, inputs: Sequence[tf.Tensor], shapes: Any, outside: int, lists: Mapping[int, int]
    ) -> _Planned:
        """Return a program for lists that may become twice as large, if the limit allows.

        So the number of plans is about the logarithm of the number of steps. Small lists may grow
        by the part `1 / _FIRST` of what is left of the limit.
        """
        limit, held = self._settings.limit(), sum(lists.values())

        def made(more: int) -> _Planned:
            grown = {k: n + more * n // max(held, 1) for k, n in lists.items()}
            return self._made(inputs, shapes, outside, grown)

        left = max(0, limit - outside - held)
        more = min(left // 2, max(held, left // _FIRST))
        try:
            return made(more)
        except MemoryLimitError as error:
            return made(max(0, more - error.smallest_limit + limit))

    def _made(
        self, inputs: Sequence[tf.Tensor], shapes: Any, outside: int, lists: Mapping[int, int]
    ) -> _Planned:
        """Return a planned program for `shapes`, or the original without a limit if that fails."""
        settings = dataclasses.replace(self._settings, outside=outside)
        given = Given(lists={**lists})
        try:
            body = self._make(self.function, settings, shapes, given=given, states=self._states)
            body.ready(inputs)
        except Exception as error:
            settings.guard.take(settings.name, error)
            settings = settings.without_limit()
            body = self._make(self.function, settings, shapes, states=self._states)
        return _Planned(body, outside, lists)


def _shared(graph: Any) -> list[tuple[bool, int]]:
    """Return, for each output, the first tensor with its buffer: (whether an input, position)."""
    found: dict[int, tuple[bool, int]] = {id(t): (True, k) for k, t in enumerate(graph.inputs)}
    places = []
    for k, tensor in enumerate(graph.outputs):
        while id(tensor) not in found and tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        places.append(found.setdefault(id(tensor), (False, k)))
    return places
