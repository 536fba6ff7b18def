"""Loops over datasets, run element by element by an eager call.

AutoGraph makes `Dataset.scan` and `Dataset.reduce` of a `for` loop over a dataset inside of a
function. The bodies are functions of the datasets. No graph contains them, and elements may differ
in size: the last batch is smaller. So a program is cut at the reduction (`sources.py`). Its head
makes the dataset under the loop. The elements are read here, and the bodies are programs, which are
specialised to the sizes of the elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import record

from tf_exla.frontends.tf.random_state import RandomStates, keeps_state
from tf_exla.frontends.tf.settings import Settings
from tf_exla.frontends.tf.specialised import Specialised
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.pipeline.plan import Plan

REDUCTION = "ReduceDataset"
_FUNCTIONS = {REDUCTION: "f", "ScanDataset": "f", "TakeWhileDataset": "predicate"}


@dataclass(frozen=True)
class DatasetLoop:
    """A reduction of a dataset, behind scans and conditions: `stages`, in the order they run."""

    stages: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The dataset under the loop, then the further operands of each stage."""
        further = (tensor for stage in self.stages for tensor in stage.inputs[1:])
        return (self.stages[0].inputs[0], *further)


def find_loop(node: Node, made_by: Mapping[Tensor, Node]) -> DatasetLoop | None:
    """Return the loop that ends in `node`, or None if it ends none."""
    if node.op != REDUCTION:
        return None
    stages = [node]
    while (maker := made_by.get(stages[0].inputs[0])) is not None and maker.op in _FUNCTIONS:
        stages.insert(0, maker)
    return DatasetLoop(tuple(stages))


class Body(Protocol):
    """A program: see `program.py`."""

    graph: Graph

    @property
    def plans(self) -> list[Plan]: ...

    def ready(self, inputs: Sequence[tf.Tensor]) -> object: ...

    def run(self, inputs: list[tf.Tensor]) -> list[tf.Tensor]: ...


class LoopRunner:
    """Runs a loop. `functions`: of the program around it; `make`: creates a program of one."""

    def __init__(
        self,
        loop: DatasetLoop,
        functions: Sequence[Any],
        settings: Settings,
        make: Callable[..., Body],
    ) -> None:
        self._loop = loop
        named = {function.name.decode(): function for function in functions}
        self._functions = [named[_function_name(stage)] for stage in loop.stages]
        self._forwarded = [_forwarded(function.graph) for function in self._functions]
        self._settings = dataclasses.replace(settings, name=f"loop of {settings.name}")
        self._make = make
        self._states = [RandomStates() for _ in loop.stages]
        # Stages with random ops in branches. Kernels have their state, so all sizes share them.
        self._with_kernels: set[int] = set()
        self._bodies: Specialised[Body] = Specialised()

    @property
    def plans(self) -> list[Plan]:
        """The plans of the bodies that have run."""
        return [plan for body in self._bodies for plan in body.plans]

    def prepared(self, outside: int) -> list[Plan]:
        """Return the plans of the bodies, made before a run if all their inputs are static."""
        for k, function in enumerate(self._functions):
            inputs = function.graph.inputs
            static = all(t.dtype in _HANDLES or t.shape.is_fully_defined() for t in inputs)
            if static and self._forwarded[k] is None:
                self._program(k, inputs, outside)
        return self.plans

    def run(self, operands: Sequence[tf.Tensor], outside: int) -> list[tf.Tensor]:
        """Return the results of the reduction. Tapes record nothing: a reduction has no gradient.

        `operands`: those of the loop. `outside`: bytes of other tensors that exist during the loop.
        """
        for random in self._states:  # TensorFlow makes new kernels for each run of a dataset
            random.restart()
        if any(keeps_state(node) for body in self._bodies for node in body.graph.nodes):
            self._bodies = Specialised()
        dataset, *further = operands
        states, more = self._divided(further)
        with record.stop_recording():
            for values in self._elements(dataset):
                for k, stage in enumerate(self._loop.stages):
                    made = self._call(k, [*states[k], *values, *more[k]], outside)
                    if stage.op == "TakeWhileDataset":
                        if not made[0]:
                            return states[-1]
                        continue
                    count = len(states[k])
                    states[k], values = made[:count], made[count:]
                del made, values  # the next element is made now
        return states[-1]

    def _divided(
        self, further: Sequence[tf.Tensor]
    ) -> tuple[list[list[tf.Tensor]], list[list[tf.Tensor]]]:
        """Return the initial state of each stage, and its operands that stay the same."""
        rest = list(further)
        states, more = [], []
        for stage in self._loop.stages:
            count = len(stage.inputs) - 1
            mine, rest = rest[:count], rest[count:]
            held = _held(stage)
            states.append(mine[:held])
            more.append(mine[held:])
        return states, more

    def _elements(self, dataset: tf.Tensor) -> Iterator[list[tf.Tensor]]:
        first = self._loop.stages[0]
        held = _held(first)
        function = self._functions[0].graph
        made = function.inputs[held : len(function.inputs) - (len(first.inputs) - 1 - held)]
        kinds = {
            "output_types": [tensor.dtype for tensor in made],
            "output_shapes": [tensor.shape for tensor in made],
        }
        iterator = tf.raw_ops.AnonymousIteratorV3(**kinds)
        tf.raw_ops.MakeIterator(dataset=dataset, iterator=iterator)
        while True:
            try:
                element = tf.raw_ops.IteratorGetNext(iterator=iterator, **kinds)
            except tf.errors.OutOfRangeError:
                return
            yield list(element)
            del element

    def _call(self, position: int, inputs: list[tf.Tensor], outside: int) -> list[tf.Tensor]:
        forwarded = self._forwarded[position]
        if forwarded is not None:
            return [inputs[k] for k in forwarded]
        return self._program(position, inputs, outside).run(inputs)

    def _program(self, position: int, inputs: Sequence[tf.Tensor], outside: int) -> Body:
        shapes = None
        if position not in self._with_kernels:
            shapes = tuple(_shape(tensor) for tensor in inputs)
        key = position, shapes, outside
        body = self._bodies.get(key, lambda: self._made(position, inputs, outside))
        if shapes is not None and any(map(keeps_state, body.graph.nodes)):
            self._with_kernels.add(position)
            return self._program(position, inputs, outside)
        return body

    def _made(self, position: int, inputs: Sequence[tf.Tensor], outside: int) -> Body:
        """Return the program of a stage for the sizes of `inputs`; if that fails, as it was."""
        settings = dataclasses.replace(self._settings, outside=outside)
        function = self._functions[position]
        shapes = None
        if position not in self._with_kernels:
            shapes = [None if one.dtype in _HANDLES else one.shape for one in inputs]
        states = self._states[position]
        try:
            body = self._make(function, settings, shapes, states=states)
            body.ready(inputs)
        except Exception as error:
            settings.guard.take(settings.name, error)
            return self._make(function, settings.without_limit(), shapes, states=states)
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


_HANDLES = (tf.resource, tf.variant)


def _shape(tensor: tf.Tensor) -> tuple[int, ...] | None:
    return None if tensor.dtype in _HANDLES else tuple(tensor.shape)


def _held(stage: Node) -> int:
    """Return the number of tensors of a stage's state."""
    attrs: Mapping[str, Any] = stage.attrs
    return len(attrs.get("Tstate", ()))


def _function_name(stage: Node) -> str:
    attrs: Mapping[str, Any] = stage.attrs
    return str(attrs[_FUNCTIONS[stage.op]].name)
