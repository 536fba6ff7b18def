"""Loops over datasets, run element by element by an eager call.

AutoGraph makes `Dataset.scan` and `Dataset.reduce` of a `for` loop over a dataset inside of a
function. The bodies are functions that the datasets call, so no graph contains them, and elements
may differ in size. So a program is cut at the reduction, and its head returns the dataset that the
loop iterates over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_exla.frontends.tf.cutting.steps import Call, Function, Step
from tf_exla.ir.graph import Graph, Node, Tensor

REDUCTION = "ReduceDataset"
_FUNCTIONS = {
    REDUCTION: "f", "MapDataset": "f", "ScanDataset": "f", "TakeWhileDataset": "predicate"
}  # fmt: skip


@dataclass(frozen=True)
class DatasetLoop:
    """A reduction of a dataset, behind maps, scans and conditions: `stages`, in their order."""

    stages: tuple[Node, ...]
    named = True
    restarts = True  # TensorFlow makes new kernels for each run of a dataset

    @property
    def node(self) -> Node:
        """The reduction."""
        return self.stages[-1]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The dataset under the loop, then the further operands of each stage."""
        further = (tensor for stage in self.stages for tensor in stage.inputs[1:])
        return (self.stages[0].inputs[0], *further)

    def functions(self, named: Mapping[str, Any], operands: Sequence[Any]) -> list[Function]:
        """Return the function of each stage."""
        return [Function(named[_name(one)].graph, name=_name(one)) for one in self.stages]

    def whole(self, functions: Sequence[Function]) -> Graph:
        """Return the loop with other functions, as a program of its operands, then `captured`."""
        nodes: list[Node] = []
        inputs = list(self.operands)
        for stage, function in zip(self.stages, functions, strict=True):
            attrs: dict[str, Any] = dict(stage.attrs)
            named = attr_value_pb2.NameAttrList()
            named.CopyFrom(attrs[_FUNCTIONS[stage.op]])
            named.name = function.name
            more = [Tensor((), one.dtype.name, "captured") for one in function.captured]
            attrs[_FUNCTIONS[stage.op]] = named
            if "Targuments" in attrs:  # TensorFlow infers those of a condition
                attrs["Targuments"] = [*attrs["Targuments"], *(one.dtype for one in more)]
            nodes.append(stage.replace(inputs=(*stage.inputs, *more), attrs=attrs))
            inputs += more
        return Graph(tuple(inputs), tuple(nodes), self.node.outputs)

    def run(
        self, call: Call, functions: Sequence[Function], operands: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the final state of the reduction."""
        dataset = operands[0]
        states, more = self._divided(operands[1:])
        operands.clear()
        graph = functions[0].graph
        element = graph.inputs[len(states[0]) : len(graph.inputs) - len(more[0])]
        for values in _elements(dataset, element):
            for k, stage in enumerate(self.stages):
                changing = [*states[k], *values]
                fixed = range(len(changing), len(changing) + len(more[k]))
                alive = [*chain(*states, *more), *values]
                made = _called(call, stage, Step(k, [*changing, *more[k]], alive, fixed))
                del changing, alive
                if stage.op == "TakeWhileDataset":
                    if not made[0]:
                        return states[-1]
                    continue
                count = len(states[k])
                states[k], values = made[:count], made[count:]
            del made, values  # free them before the next element is made
        return states[-1]

    def _divided(
        self, further: Sequence[tf.Tensor]
    ) -> tuple[list[list[tf.Tensor]], list[list[tf.Tensor]]]:
        """Return the initial state of each stage, and its operands that stay the same."""
        rest = list(further)
        states, more = [], []
        for stage in self.stages:
            count = len(stage.inputs) - 1
            mine, rest = rest[:count], rest[count:]
            states.append(mine[: _held(stage)])
            more.append(mine[_held(stage) :])
        return states, more


def find_loop(node: Node, made_by: Mapping[Tensor, Node]) -> DatasetLoop:
    """Return the loop that ends in the reduction `node`."""
    stages = [node]
    while (maker := made_by.get(stages[0].inputs[0])) is not None and maker.op in _FUNCTIONS:
        stages.insert(0, maker)
    return DatasetLoop(tuple(stages))


def _called(call: Call, stage: Node, step: Step) -> list[tf.Tensor]:
    try:
        return call(step)
    except tf.errors.OutOfRangeError as error:  # of the function, not the end of the dataset
        if stage.op == REDUCTION:
            raise
        message = f"Function invocation produced OutOfRangeError: {error.message}"
        raise tf.errors.InvalidArgumentError(error.node_def, error.op, message) from error


def _elements(dataset: tf.Tensor, like: Sequence[tf.Tensor]) -> Iterator[list[tf.Tensor]]:
    kinds = {
        "output_types": [tensor.dtype for tensor in like],
        "output_shapes": [tensor.shape for tensor in like],
    }
    iterator = tf.raw_ops.AnonymousIteratorV3(**kinds)
    tf.raw_ops.MakeIterator(dataset=dataset, iterator=iterator)
    while True:
        try:
            element = [list(tf.raw_ops.IteratorGetNext(iterator=iterator, **kinds))]
        except tf.errors.OutOfRangeError:
            return
        yield element.pop()


def _held(stage: Node) -> int:
    """Return the number of tensors of a stage's state."""
    attrs: Mapping[str, Any] = stage.attrs
    return len(attrs.get("Tstate", ()))


def _name(stage: Node) -> str:
    attrs: Mapping[str, Any] = stage.attrs
    return str(attrs[_FUNCTIONS[stage.op]].name)
