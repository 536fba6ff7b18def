"""Control flow that an eager call runs step by step: each body is a program of its own.

Graphs cannot look at sizes. So what a loop or a branch runs on data of other sizes, such as the
last and smaller batch, cannot be planned in the graph. The call itself can run these loops: a
program is cut at them (`sources.py`), and their bodies are specialised to the sizes that come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import record

from tf_exla.frontends.tf.random_state import RandomStates, keeps_state
from tf_exla.frontends.tf.restore import Restored, restore
from tf_exla.frontends.tf.settings import Settings
from tf_exla.frontends.tf.specialised import Specialised
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.pipeline.plan import Plan

Call = Callable[[int, list[tf.Tensor]], list[tf.Tensor]]
"""Calls the function at a position."""

HANDLES = (tf.resource, tf.variant)
# The number of programs of a body that are kept: sizes of a state that grows come in each call.
_KEPT = 64


@dataclass(frozen=True)
class Function:
    """A function of control flow; `captured`: its last inputs."""

    function: Any
    captured: tuple[tf.Tensor, ...] = ()


class Stepped(Protocol):
    """A node, with those that belong to it, that a call runs step by step.

    `operands`: what its functions read. `graph`: it as a program of these operands. `named`:
    whether its functions have names, and exist before the operands. `restarts`: whether random ops
    begin anew in each run.
    """

    @property
    def node(self) -> Node: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def operands(self) -> tuple[Tensor, ...]: ...

    @property
    def named(self) -> bool: ...

    @property
    def restarts(self) -> bool: ...

    def functions(self, named: Mapping[str, Any], operands: Sequence[Any]) -> list[Function]:
        """Return its functions; `named`: those that attributes of nodes name."""

    def run(
        self, call: Call, functions: Sequence[Function], operands: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the results of the node."""


class Body(Protocol):
    """A program: see `program.py`."""

    graph: Graph

    @property
    def plans(self) -> list[Plan]: ...

    @property
    def specialised(self) -> Sequence[Body]: ...

    @property
    def fits_unchanged(self) -> bool: ...

    def ready(self, inputs: Sequence[tf.Tensor]) -> object: ...

    def run(self, inputs: list[tf.Tensor]) -> list[tf.Tensor]: ...


class Runner:
    """Runs control flow step by step.

    `functions`: those of the program around it. `make`: creates the program of a function.
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
        self._settings = dataclasses.replace(settings, name=f"loop of {settings.name}")
        self._make = make
        self._bodies: list[_Bodies] = []
        self._fits: dict[int, bool] = {}
        self._unchanged: Restored | None = None

    @property
    def plans(self) -> list[Plan]:
        """The plans of the bodies that have run."""
        kept = (body for bodies in self._bodies for body in bodies.kept)
        return [plan for body in kept for one in body.specialised for plan in one.plans]

    def prepared(self, outside: int) -> list[Plan]:
        """Return the plans of the bodies, made before a run if all their inputs are static."""
        if self._stepped.named:
            self._fits_unchanged(outside)
        return self.plans

    def _fits_unchanged(self, outside: int) -> bool:
        """Return whether all bodies have static sizes, and hold the limit as they are."""
        if outside not in self._fits:
            programs = [bodies.static_program(outside) for bodies in self._created(())]
            self._fits[outside] = all(one is not None and one.fits_unchanged for one in programs)
        return self._fits[outside]

    def run(self, operands: Sequence[tf.Tensor], outside: int) -> list[tf.Tensor]:
        """Return the results. Tapes record nothing.

        `outside`: bytes of tensors beside `operands` that exist during the run.
        """
        if self._stepped.named and self._fits_unchanged(outside):
            # TensorFlow's own loop takes a quarter of the time of small steps.
            if self._unchanged is None:
                keep = tuple(self._named.values())
                self._unchanged = restore(self._stepped.graph, like=operands, keep=keep)
            return self._unchanged(operands)
        created = self._created(operands)
        if self._stepped.restarts:
            for bodies in created:
                bodies.restart()
        with record.stop_recording():
            return self._stepped.run(
                lambda k, inputs: created[k].call(inputs, outside),
                [bodies.function for bodies in created],
                operands,
            )

    def _created(self, operands: Sequence[tf.Tensor]) -> list[_Bodies]:
        if not self._bodies:
            functions = self._stepped.functions(self._named, operands)
            self._bodies = [_Bodies(one, self._settings, self._make) for one in functions]
        return self._bodies


class _Bodies:
    """The programs of one function, by the sizes of its inputs."""

    def __init__(self, function: Function, settings: Settings, make: Callable[..., Body]) -> None:
        self.function = function
        self.forwarded = _forwarded(function.function.graph)
        self.kept: Specialised[Body] = Specialised(_KEPT)
        self._settings = settings
        self._make = make
        self._states = RandomStates()
        # Random ops in branches have their state in kernels, so all sizes share a program.
        self._with_kernels = False

    def restart(self) -> None:
        """Make random ops begin anew, as TensorFlow's new kernels would."""
        self._states.restart()
        if any(keeps_state(node) for body in self.kept for node in body.graph.nodes):
            self.kept = Specialised(_KEPT)

    def static_program(self, outside: int) -> Body | None:
        """Return the program if all inputs have static sizes, else None."""
        inputs = self.function.function.graph.inputs
        if not all(t.dtype in HANDLES or t.shape.is_fully_defined() for t in inputs):
            return None
        return self.program(inputs, outside)

    def call(self, inputs: list[tf.Tensor], outside: int) -> list[tf.Tensor]:
        """Run the program for the sizes of `inputs`."""
        if self.forwarded is not None:
            return [inputs[k] for k in self.forwarded]
        inputs = [*inputs, *self.function.captured]
        return self.program(inputs, outside).run(inputs)

    def program(self, inputs: Sequence[tf.Tensor], outside: int) -> Body:
        """Return the program for the sizes of `inputs`, made if there is none."""
        shapes = None
        if not self._with_kernels:
            shapes = tuple(None if t.dtype in HANDLES else tuple(t.shape) for t in inputs)
        body = self.kept.get((shapes, outside), lambda: self._made(inputs, shapes, outside))
        if not self._with_kernels and any(map(keeps_state, body.graph.nodes)):
            self._with_kernels = True
            return self.program(inputs, outside)
        return body

    def _made(self, inputs: Sequence[tf.Tensor], shapes: Any, outside: int) -> Body:
        """Return the program for `shapes`; if that fails, the function as it was."""
        settings = dataclasses.replace(self._settings, outside=outside)
        try:
            body = self._make(self.function.function, settings, shapes, states=self._states)
            body.ready(inputs)
        except Exception as error:
            settings.guard.take(settings.name, error)
            settings = settings.without_limit()
            return self._make(self.function.function, settings, shapes, states=self._states)
        return body


def _forwarded(graph: Any) -> list[int] | None:
    """Return the positions of the inputs that a function returns, None if it does more."""
    if any(op.type not in ("Placeholder", "Identity", "NoOp") for op in graph.get_operations()):
        return None
    places = {id(tensor): k for k, tensor in enumerate(graph.inputs)}
    found = []
    for tensor in graph.outputs:
        while id(tensor) not in places:
            tensor = tensor.op.inputs[0]
        found.append(places[id(tensor)])
    return found
