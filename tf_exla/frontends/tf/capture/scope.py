"""Build a `Graph` from the ops of a traced function: inlined, specialised to shapes, folded.

For each op, its inputs are looked up, and a result that they determine becomes a constant. Shapes
that TensorFlow does not know are inferred from the shapes of the call (`shape_inference.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import func_graph, op_def_registry

from tf_exla.frontends.tf.capture.assigned import Assigned
from tf_exla.frontends.tf.capture.func_graphs import (
    CaptureError,
    ShapesError,
    called_function,
    find_function,
    held_bytes,
    implementation,
    ordered_ops,
)
from tf_exla.frontends.tf.capture.given import NOTHING, Given, constant_value
from tf_exla.frontends.tf.capture.list_shapes import (
    ListShape,
    asked,
    made_list,
    read_shapes,
    repeated,
)
from tf_exla.frontends.tf.nodes.attrs import attr_types, decode, shape_of
from tf_exla.frontends.tf.nodes.emit import DEVICE
from tf_exla.frontends.tf.nodes.folding import UNKNOWN, fold, fold_partly, is_small, value_bytes
from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.nodes.shape_inference import MisfitError, Operand, infer_shapes
from tf_exla.frontends.tf.nodes.static_sizes import diagonal_sizes, misleads, static_sizes
from tf_exla.frontends.tf.source_line import source_line
from tf_exla.ir.dtypes import repeats_one
from tf_exla.ir.graph import Array, Node, Shape, Tensor, item_bytes

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_TF1_CONTROL_FLOW = frozenset(
    {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefSwitch", "RefMerge"}
)
_NOT_CAPTURED = frozenset({"SymbolicGradient", "RemoteCall"})
# Ops of distributed communication by their OpDef, but they wait for others for a limited time only.
_BATCHES = frozenset({"Batch", "BatchFunction"})
# A report can name results from this size on, so the line of the user's program is looked up.
_SOURCE_BYTES = 4096


@dataclass
class Walk:
    """The state that all scopes of one capture share.

    `structured`: functions that capture control flow, by op. `origins`: the tensor of the captured
    function that a tensor represents. `partly`: values of which some elements are static. `given`:
    sizes that are known in this call. `lists`: known shapes of lists. `values_of`: known shapes of
    the values of variables that the program only reads, by handle. `optionals`: the operands of
    each optional. `misled`: tensors whose static shape in the captured function may be wrong.
    """

    structured: Mapping[str, Structured]
    origins: dict[Tensor, tf.Tensor] = field(default_factory=dict)
    partly: dict[Tensor, Array] = field(default_factory=dict)
    constants: list[tuple[Tensor, tf.Tensor]] = field(default_factory=list)
    functions: list[Any] = field(default_factory=list)
    given: Given = NOTHING
    lists: dict[Tensor, ListShape] = field(default_factory=dict)
    values_of: dict[Tensor, Shape] = field(default_factory=dict)
    optionals: dict[Tensor, list[Tensor]] = field(default_factory=dict)
    misled: set[Tensor] = field(default_factory=set)

    def input(
        self,
        origin: tf.Tensor,
        shape: tf.TensorShape | Shape | None,
        name: str,
        holds: str = "",
        held: int = 0,
    ) -> Tensor:
        """Create an input of a graph, at least as static as `origin`; `held`: bytes of a list."""
        known = origin.shape if shape is None else origin.shape.merge_with(tf.TensorShape(shape))
        held = held or held_bytes(origin)
        tensor = Tensor(shape_of(known), origin.dtype.name, name, held=held, holds=holds)
        self.origins[tensor] = origin
        read = self.given.shapes.get(constant_value(tensor.name), (None,))[0]
        if read is not None:
            self.values_of[tensor] = read
        return tensor

    def value(self, tensor: Tensor) -> Array | None:
        """Return the value of a static tensor of any size, else None."""
        if tensor.value is not None:
            return tensor.value
        return next((one.numpy() for large, one in self.constants if large is tensor), None)


class Scope:
    """One graph under construction. `hoist`: its large constants become inputs."""

    def __init__(self, walk: Walk, hoist: bool = False) -> None:
        self.walk = walk
        self.hoist = hoist
        self.nodes: list[Node] = []
        self._assigned = Assigned()

    def inline(
        self,
        graph: func_graph.FuncGraph,
        arguments: Sequence[Tensor],
        outputs: Sequence[tf.Tensor],
        prefix: str,
    ) -> list[Tensor]:
        """Append the ops that `outputs` and the graph's side effects need; return the outputs."""
        values: dict[int, Tensor] = {
            id(inner): value for inner, value in zip(graph.inputs, arguments, strict=True)
        }
        for op in ordered_ops(graph, outputs):
            if op.type == "NoOp" or (op.type == "Placeholder" and id(op.outputs[0]) in values):
                continue
            inputs = [values[id(tensor)] for tensor in op.inputs]
            made = self._capture(op, inputs, prefix)
            values.update(zip(map(id, op.outputs), made, strict=True))
        return [values[id(tensor)] for tensor in outputs]

    def _capture(self, op: tf.Operation, inputs: list[Tensor], prefix: str) -> list[Tensor]:
        name = prefix + op.name
        if (known := self._assigned.read(op.type, inputs)) is not None:
            return [known]
        if op.type not in CALLS:
            self._assigned.note(op.type, inputs)
        if op.type in self.walk.structured:
            return self.walk.structured[op.type](self, op, inputs, name)
        if op.type in CALLS:
            return self.call(op, implementation(op, op.get_attr("f").name), inputs, name)
        if op.type in _TF1_CONTROL_FLOW:
            raise CaptureError(f"{name} is control flow of TensorFlow 1 ({op.type})")
        if op.type in _NOT_CAPTURED or op.type == "Placeholder":
            raise CaptureError(f"{name}: a {op.type} cannot be captured")
        if _meets_others(op):
            raise CaptureError(f"{name}: a {op.type} waits for one on another device")
        if op_def_registry.get(op.type) is None:
            return self.call(op, op.type, inputs, name)
        if op.type == "Const":
            proto = op.get_attr("value")
            return [self.constant(tf.make_ndarray(proto), op.outputs[0].dtype.name, name)]
        attrs = decode(op.type, op.node_def.attr, [tensor.dtype for tensor in inputs])
        if op.device:
            attrs[DEVICE] = op.device
        self._keep_functions(op)
        if op.type == "OptionalGetValue" and inputs[0] in self.walk.optionals:
            # The gradient of an inlined choice reads what the choice put into optionals.
            return self.walk.optionals[inputs[0]]
        made = self.add(op.type, inputs, attrs, op, name)
        if op.type == "OptionalFromValue":
            self.walk.optionals[made[0]] = inputs
        return made

    def call(
        self, op: tf.Operation, function: str, inputs: list[Tensor], name: str
    ) -> list[Tensor]:
        """Inline a call."""
        graph = find_function(op, function)
        return self.inline(graph, inputs, graph.outputs[: len(op.outputs)], f"{name}/")

    def add(
        self,
        kind: str,
        inputs: list[Tensor],
        attrs: Mapping[str, Any],
        op: tf.Operation,
        name: str,
    ) -> list[Tensor]:
        """Append one node, or the constants that it folds to."""
        stateful = op._is_stateful
        lists = self.walk.lists
        misled = misleads(op) or not self.walk.misled.isdisjoint(inputs)
        shapes = self.inferred(kind, inputs, attrs, op, name, misled)
        shapes = read_shapes(kind, inputs, diagonal_sizes(kind, inputs, shapes), lists)
        shapes = static_sizes(kind, inputs, shapes, self.walk.value)
        shapes = self.came(name, shapes)
        if kind == "ReadVariableOp" and inputs[0] in self.walk.values_of:
            shapes = [self.walk.values_of[inputs[0]]]
        partly = None
        if not stateful and _may_be_small(op, shapes):
            folded = asked(kind, inputs, lists, op.outputs[0].dtype.name)
            folded = folded or fold(kind, inputs, attrs, len(op.outputs))
            partly = None if folded else fold_partly(kind, inputs, attrs, self.walk.partly)
            if partly is not None and UNKNOWN not in partly:
                folded, partly = [partly], None
            dtypes = [tensor.dtype.name for tensor in op.outputs]
            if folded is not None and all(map(_is_small_value, folded, dtypes)):
                return [
                    self.constant(array, dtype, f"{name}:{k}" if k else name)
                    for k, (array, dtype) in enumerate(zip(folded, dtypes, strict=True))
                ]
        known = made_list(kind, inputs, attrs, lists)
        outputs = self.outputs(op, shapes, name, [known])
        if misled:
            self.walk.misled.update(outputs)
        if partly is not None:
            self.walk.partly[outputs[0]] = partly
        if known is not None:
            lists[outputs[0]] = known
        large = any(not t.is_static or t.nbytes >= _SOURCE_BYTES for t in outputs)
        source = source_line(op) if large or stateful else ""
        op_name = graph_name(kind, outputs[0].dtype if outputs else "")
        self.nodes.append(
            Node(op_name, tuple(inputs), tuple(outputs), attrs, stateful, name, source)
        )
        same = repeated(kind, inputs, lists)
        if same is not None:
            outputs[1] = self.constant(same, outputs[1].dtype, f"{name}/same")
        return list(map(self.sized, outputs))

    def came(self, name: str, shapes: list[Shape | None]) -> list[Shape | None]:
        """Return the shapes of a node's results, with sizes replaced that this call knows."""
        came = self.walk.given.shapes.get(name) if self.hoist else None
        if came is None:
            return shapes
        # Control flow may have more or fewer results than when it ran: TensorFlow adds results to
        # it when a gradient is made.
        later = [None] * (len(shapes) - len(came))
        pairs = zip(shapes, [*came, *later], strict=False)
        return [old if new is None else new for old, new in pairs]

    def sized(self, tensor: Tensor, position: int | None = None) -> Tensor:
        """Return a constant if the integers of `tensor` are known in this call, else `tensor`.

        `position`: the index of `tensor` among the inputs of the program, if it is one.
        """
        key = tensor.name if position is None else position
        known = self.walk.given.values.get(key) if self.hoist else None
        return (
            tensor if known is None else self.constant(known, tensor.dtype, f"{tensor.name}/size")
        )

    def outputs(
        self,
        op: tf.Operation,
        shapes: Sequence[Shape | None],
        name: str,
        lists: Sequence[ListShape | None] = (),
    ) -> list[Tensor]:
        """Create the results of a node for `op`; `lists`: list shapes of the first results."""
        made = []
        known = chain(lists, repeat(None))
        for position, (origin, shape) in enumerate(zip(op.outputs, shapes, strict=True)):
            label = f"{name}:{position}" if position else name
            one = next(known)
            items = None if one is None else one.items
            tensor = Tensor(shape, origin.dtype.name, label, held=held_bytes(origin), items=items)
            self.walk.origins[tensor] = origin
            made.append(tensor)
        return made

    def constant(self, array: Array, dtype: str, name: str) -> Tensor:
        """Append a constant: a `constant` node, or if large a `full` or an input of the program."""
        small = _is_small_value(array, dtype)
        if small or not self.hoist or dtype == "string":
            value = array if small else None
            tensor = Tensor(array.shape, dtype, name, value=value)
            self.nodes.append(Node("constant", (), (tensor,), {"value": array}, name=name))
            return tensor
        tensor = Tensor(array.shape, dtype, name)
        if repeats_one(array):
            shape = self.constant(np.array(array.shape, np.int32), "int32", f"{name}/shape")
            number = self.constant(array.reshape(-1)[0].reshape(()), dtype, f"{name}/value")
            self.nodes.append(Node("full", (shape, number), (tensor,), name=name))
            return tensor
        with tf.init_scope():
            self.walk.constants.append((tensor, tf.constant(array, dtype=tf.as_dtype(dtype))))
        return tensor

    # Many parameters: a node that is not made yet.
    def inferred(
        self,
        kind: str,
        inputs: list[Tensor],
        attrs: Mapping[str, Any],
        op: tf.Operation,
        name: str,
        misled: bool = False,
    ) -> list[Shape | None]:
        """Return the shapes of an op's results for these inputs, as TensorFlow infers them.

        `misled`: the static shapes in the captured function may be wrong.
        """
        if not misled and all(tensor.shape.is_fully_defined() for tensor in op.outputs):
            return [shape_of(tensor.shape) for tensor in op.outputs]
        walk = self.walk
        operands = [Operand(t.dtype, t.shape, t.value, walk.origins.get(t)) for t in inputs]
        try:
            made = infer_shapes(kind, operands, attrs)
        except MisfitError as error:
            raise ShapesError(f"{name} does not fit the shapes of the call: {error}") from error
        # Of unknown sizes, TensorFlow infers a wrong rank for ExtractVolumePatches.
        return [
            shape_of(
                new.merge_with(old.shape)
                if not misled and new.is_compatible_with(old.shape)
                else new
            )
            for new, old in zip(made, op.outputs, strict=True)
        ]

    def _keep_functions(self, op: tf.Operation) -> None:
        for key, type_ in attr_types(op.type).items():
            if type_ == "func":
                self.walk.functions.append(called_function(op, op.get_attr(key).name))


def _meets_others(op: tf.Operation) -> bool:
    """Return whether an op ends only when others of its group run at the same time.

    A plan runs effects one after another, so the first of the group would wait forever.
    """
    return op.op_def.is_distributed_communication and op.type not in _BATCHES


Structured = Callable[[Scope, tf.Operation, list[Tensor], str], list[Tensor]]
"""Captures an op with sub-graphs: the scope around it, the op, its operands and its name."""


def _may_be_small(op: tf.Operation, shapes: Sequence[Shape | None]) -> bool:
    """Return whether all results are small or of unknown size; folding must not try large ones."""
    for tensor, shape in zip(op.outputs, shapes, strict=True):
        if shape is not None and None not in shape:
            size = math.prod(shape)  # type: ignore[arg-type]
            if not is_small(tensor.dtype.name, size, size * item_bytes(tensor.dtype.name)):
                return False
    return True


def _is_small_value(array: Array, dtype: str) -> bool:
    return is_small(dtype, array.size, value_bytes(array, dtype))
