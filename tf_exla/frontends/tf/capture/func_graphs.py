"""Queries of capture on TensorFlow's function graphs: functions, order, variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph, function_def_to_graph
from tensorflow.python.ops import handle_data_util

from tf_exla.frontends.tf.nodes.attrs import shape_of
from tf_exla.ir.graph import Shape, item_bytes
from tf_exla.ir.traverse import CycleError, in_order


class CaptureError(RuntimeError):
    """Part of the program cannot be captured; the message names it."""


class ShapesError(CaptureError):
    """The shapes of a call do not fit an op. Usually, the original function raises an error too."""


def find_function(op: tf.Operation, name: str) -> func_graph.FuncGraph:
    """Return the graph of a function that an op calls."""
    function = called_function(op, name)
    graph = getattr(function, "graph", None)
    if graph is not None:
        return graph
    # A function of TensorFlow 1 (`Defun`) has a definition only.
    definition = (
        context.context().get_function_def(name) if function is None else function.definition
    )
    if definition is None:
        raise CaptureError(f"{op.name} calls {name}, which is not known")
    with op.graph.as_default():  # its callees are looked up here
        return function_def_to_graph.function_def_to_graph(definition)


def implementation(op: tf.Operation, name: str) -> str:
    """Return the function that runs on the op's device instead of the one that it calls.

    Functions with the attribute `api_implements` are implementations of one interface, which may
    draw other random numbers. Grappler selects one by the device, and does not see a plan:
    tensorflow/core/grappler/optimizers/implementation_selector.cc.
    """
    function = called_function(op, name)
    definition = getattr(function, "cached_definition", None)
    if function is None:
        definition = context.context().get_function_def(name)
    interface, own = _interface(definition)
    if not interface:
        return name
    device = tf.DeviceSpec.from_string(op.device).device_type
    device = device or ("GPU" if tf.config.list_logical_devices("GPU") else "CPU")
    if own == device:
        return name
    for other, found in _library(op):
        if _interface(found) == (interface, device) and _fits(op, other, found):
            return other
    return name


def _interface(definition: Any) -> tuple[str, str]:
    """Return the interface that a function implements, and the device it is written for."""
    if definition is None:
        return "", ""
    names = ("api_implements", "api_preferred_device")
    found = [definition.attr[name].s.decode() if name in definition.attr else "" for name in names]
    return found[0], found[1]


def _library(op: tf.Operation) -> Iterator[tuple[str, Any]]:
    """Yield the functions that a call may reach, with their definitions."""
    graph = op.graph
    while graph is not None:
        for function in graph._functions.values():
            definition = getattr(function, "cached_definition", None)
            if definition is not None:
                yield definition.signature.name, definition
        graph = getattr(graph, "outer_graph", None)
    for name in context.context().list_function_names():  # of a loaded model
        known = name if isinstance(name, str) else name.decode()
        yield known, context.context().get_function_def(known)


def _fits(op: tf.Operation, name: str, definition: Any) -> bool:
    """Return whether a function may be called with the operands of an op, for its results."""
    signature = definition.signature
    for ends, args in ((op.inputs, signature.input_arg), (op.outputs, signature.output_arg)):
        if [one.dtype.as_datatype_enum for one in ends] != [one.type for one in args]:
            return False
    graph = find_function(op, name)
    pairs = [*zip(op.inputs, graph.inputs, strict=True)]
    pairs += zip(op.outputs, graph.outputs, strict=False)  # gradients read further results
    return all(one.shape.is_compatible_with(other.shape) for one, other in pairs)


def called_function(op: tf.Operation, name: str) -> Any:
    """Return the function that an op names, or None if neither its graph nor an outer has it."""
    graph = op.graph
    while graph is not None:
        function = graph._get_function(name)
        if function is not None:
            return function
        graph = getattr(graph, "outer_graph", None)
    return None


def ordered_ops(graph: func_graph.FuncGraph, outputs: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """Return the ops that outputs and effects need, in topological order, else as created."""
    position = {op: k for k, op in enumerate(graph.get_operations())}
    stack = [tensor.op for tensor in outputs] + list(graph.control_outputs)
    before: dict[tf.Operation, set[tf.Operation]] = {}
    while stack:
        op = stack.pop()
        if op not in before:
            before[op] = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
            stack.extend(before[op])
    try:
        return in_order(before, position.__getitem__)
    except CycleError as error:
        raise CaptureError(f"{graph.name} has a cycle (control flow of TensorFlow 1)") from error


def held_bytes(tensor: tf.Tensor) -> int:
    """Return the bytes of the variable behind a handle, or 0 if unknown."""
    if tensor.dtype != tf.resource:
        return 0
    known = variable_type(tensor)
    if known is None:
        return 0
    dtype, shape = known
    return (tf.TensorShape(shape).num_elements() or 0) * item_bytes(dtype)


def variable_type(handle: tf.Tensor) -> tuple[str, Shape | None] | None:
    """Return the dtype and shape of the variable behind a handle, or None if unknown."""
    data = handle_data_util.get_resource_handle_data(handle)
    if not data.is_set or len(data.shape_and_type) != 1:
        return None
    (entry,) = data.shape_and_type
    return tf.as_dtype(entry.dtype).name, shape_of(tf.TensorShape(entry.shape))
