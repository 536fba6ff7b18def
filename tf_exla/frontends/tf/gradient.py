"""Gradients of programs, within the same limit.

The gradient of a program is itself a program: the original function, traced again with TensorFlow's
gradient behind it, then captured and planned like any other. Intermediates of the forward pass are
thus recomputed in chunks rather than kept. The forward pass *saves* only what cannot be recomputed:
the values that variables had, and the results of stateful nodes (random numbers, reads of variables
that the program assigns). Stateful nodes of the forward pass do not run again. Control flow that
contains such nodes runs again without them (`replay.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop_util, record
from tensorflow.python.eager.polymorphic_function import concrete_function, function_type_utils
from tensorflow.python.framework import func_graph, indexed_slices
from tensorflow.python.ops import gradients_util, script_ops

from tf_exla.frontends.tf.effects import READS
from tf_exla.frontends.tf.emit import new_graph, placeholder
from tf_exla.frontends.tf.func_graphs import variable_type
from tf_exla.frontends.tf.plain_gradient import PlainGradient
from tf_exla.frontends.tf.replay import Key, is_handle, keeping, replay, stateful_inside
from tf_exla.frontends.tf.scope import CALLS
from tf_exla.frontends.tf.settings import Program, Settings
from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.traverse import walk, without_dead


class GradientError(RuntimeError):
    """A gradient would be wrong or cannot be computed; the message says which and why."""


class Gradient:
    """The gradient of a program with respect to the inputs that `mask` selects.

    `make`: creates a program from the gradient's concrete function and the forward program.
    """

    def __init__(
        self, program: Program, mask: tuple[bool, ...], make: Callable[..., Program]
    ) -> None:
        self.forward = program
        self.trainable = [
            k
            for k, tensor in enumerate(program.concrete.graph.outputs[: program.count])
            if backprop_util.IsTrainable(tensor)
        ]
        concrete, prefix, self.positions = _trace(program, mask, self.trainable)
        settings = program.settings
        if not settings.name.startswith("gradient of "):
            settings = dataclasses.replace(settings, name=f"gradient of {settings.name}")
        self.concrete = concrete
        self.program: Program | PlainGradient | None = None
        if not self.positions:
            return
        try:
            self.program = make(concrete, settings, inner=program, prefix=prefix)
        except Exception as error:
            self._fall_back(settings, error)

    def __call__(
        self, inputs: Sequence[tf.Tensor], upstream: Sequence[Any], saved: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        """Return the gradient of each input, None if it is not connected or not requested.

        `upstream`: a gradient for each output, or None.
        """
        made: list[tf.Tensor | None] = [None] * len(inputs)
        if self.program is None:
            return made
        given = [self._upstream(k, upstream[k]) for k in self.trainable]
        arguments = [*inputs, *given, *self.concrete.captured_inputs]
        if not isinstance(self.program, PlainGradient):
            try:
                self.program.ready(arguments)
            except Exception as error:
                self._fall_back(self.program.settings, error)
        results = self.program.run(arguments, saved)
        for position, tensor in zip(self.positions, results, strict=True):
            made[position] = tensor
        return made

    def _fall_back(self, settings: Settings, error: Exception) -> None:
        settings.guard.take(settings.name, error)
        self.program = PlainGradient(self.forward, self.concrete, error)

    def _upstream(self, position: int, value: Any) -> tf.Tensor:
        if value is None:
            output = self.forward.graph.outputs[position]
            return tf.zeros(output.dims, tf.as_dtype(output.dtype))
        return tf.convert_to_tensor(value)


def keep_python_tapes(graph: Graph) -> None:
    """Make each `tf.py_function` of a graph keep the tape that its gradient will need.

    TensorFlow does so when it traces the gradient, which here happens after the forward pass.
    """
    for node in walk(graph):
        if node.op == "EagerPyFunc":
            token = node.attrs["token"]
            token = token.decode() if isinstance(token, bytes) else token
            function = script_ops._py_funcs.get(token)
            if isinstance(function, script_ops.EagerFunc):
                function.set_support_graph_mode_gradient()


def backward_function(program: Program) -> Callable[..., list[tf.Tensor | None]]:
    """Return the gradient function of an op that calls `program`.

    It reads all values from the op, since the gradient may be built in another graph, which then
    captures the op's operands and results.
    """
    count = program.captured.inputs
    first = count + len(program.captured.constants)

    def backward(op: tf.Operation, *upstream: Any) -> list[tf.Tensor | None]:
        saved = [*op.inputs[first : first + program.first_save], *op.outputs[program.count :]]
        gradient = program.gradient((True,) * count)
        made = gradient(op.inputs[:count], upstream[: program.count], saved)
        return [*made, *[None] * (len(op.inputs) - count)]

    return backward


def _trace(
    program: Program, mask: tuple[bool, ...], trainable: Sequence[int]
) -> tuple[Any, str, list[int]]:
    """Trace the gradient as a function of the inputs and of the upstream gradients.

    Returns the function, the prefix of the forward pass's names in it, and the position of the
    input that each of its outputs is the gradient of.
    """
    concrete = program.concrete
    source = concrete.graph
    graph = new_graph(f"gradient_{source.name}")
    shapes = [tensor.shape for tensor in program.graph.inputs]
    inputs = [
        placeholder(graph, like.dtype.name, shape, like)
        for like, shape in zip(source.inputs, shapes, strict=False)
    ]
    outputs = program.graph.outputs
    upstream = [placeholder(graph, outputs[k].dtype, outputs[k].shape) for k in trainable]
    captured = len(concrete.captured_inputs)
    split = len(inputs) - captured
    with graph.as_default():
        with record.stop_recording():
            concrete._call_flat(inputs[:split], inputs[split:])
        call = next(op for op in graph.get_operations() if op.type in CALLS)
        wanted = [
            k
            for k, (tensor, needed) in enumerate(zip(inputs, mask, strict=True))
            if needed and backprop_util.IsTrainable(tensor)
        ]
        found = gradients_util._GradientsHelper(
            [call.outputs[k] for k in trainable],
            [inputs[k] for k in wanted],
            grad_ys=upstream,
        )
        connected = [k for k, made in zip(wanted, found, strict=True) if made is not None]
        results = [_dense(made) for made in found if made is not None]
    _finish(graph, [*inputs, *upstream], results)
    made = concrete_function.ConcreteFunction.from_func_graph(
        graph, function_type_utils.derive_from_graph(graph), {}
    )
    return made, f"{call.name}/", connected


def _finish(graph: func_graph.FuncGraph, inputs: list[tf.Tensor], outputs: list[tf.Tensor]) -> None:
    graph.inputs = [*inputs, *graph.internal_captures]
    # An output must be the result of an op of this graph, also if it is an input.
    with graph.as_default():
        graph.outputs = [tf.identity(tensor) for tensor in outputs]
    graph.structured_outputs = tuple(graph.outputs)
    graph.control_outputs = [
        op for op in graph.get_operations() if op._is_stateful and op.type != "Placeholder"
    ]


def _dense(gradient: Any) -> tf.Tensor:
    if isinstance(gradient, indexed_slices.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    return gradient


# What the forward pass saves.


def own_saves(program: Program) -> list[Tensor]:
    """Return the tensors that a call of `program` saves, and add them to its tables."""
    saves: list[Tensor] = []

    def save(tensor: Tensor) -> int:
        saves.append(tensor)
        return program.first_save + len(saves) - 1

    nodes: list[Node] = []
    inputs = {tensor: k for k, tensor in enumerate(program.graph.inputs)}
    for node in program.graph.nodes:
        if node.stateful and node.subgraphs:
            made, kept = keeping(node)
            nodes += made
            positions = {key: save(tensor) for key, tensor in kept.items()}
            for one in (node, *stateful_inside(node)):
                keys = ((one.name, k) for k in range(max(len(one.outputs), 1)))
                program.by_name[one.name] = [positions.get(key) for key in keys]
            continue
        nodes.append(node)
        if node.stateful:
            program.by_name[node.name] = [
                None if is_handle(tensor) else save(tensor) for tensor in node.outputs
            ]
        elif node.op in READS and node.op != "VariableShape" and node.inputs[0] in inputs:
            position = inputs[node.inputs[0]]
            if position not in program.by_handle and position < program.captured.inputs:
                program.by_handle[position] = save(_value(node, program, position, nodes))
    program.graph = program.graph.replace(nodes=tuple(nodes))
    return saves


def _value(read: Node, program: Program, position: int, nodes: list[Node]) -> Tensor:
    """Return the whole value of the variable that a node reads; append a read if necessary."""
    if read.op == "read_variable":
        return read.output
    known = variable_type(program.concrete.graph.inputs[position])
    if known is None:
        raise GradientError(
            f"{program.settings.name}: the variable that {read.name} reads is unknown"
        )
    dtype, shape = known
    value = Tensor(shape, dtype, f"{read.name}/value")
    nodes.append(
        Node("read_variable", read.inputs[:1], (value,), {"dtype": dtype}, name=value.name)
    )
    return value


# What the gradient uses of the saved values.


def substitute(program: Program, inner: Program, prefix: str) -> None:
    """Make a gradient use the values that lower levels have saved, and drop their effects.

    Raises `GradientError` if a value is not available.
    """
    graph = program.graph
    given = [inner.given_at(k) for k in range(program.first_save)]
    renamed: dict[Tensor, Tensor] = {}
    handles = {tensor: k for k, tensor in enumerate(graph.inputs) if tensor.dtype == "resource"}
    program.by_handle.update(inner.by_handle)

    nodes: list[Node] = []
    for node in graph.nodes:
        node = node.substitute(renamed)
        if node.stateful and node.name.startswith(prefix):
            known: dict[Key, Tensor] = {}
            for one in (node, *stateful_inside(node)):
                positions = _positions(one, program, inner, prefix)
                known.update(((one.name, k), given[i]) for k, i in positions if i is not None)
            if node.subgraphs:
                nodes += replay(node, known)
                continue
            for k, tensor in enumerate(node.outputs):
                if (node.name, k) in known:
                    renamed[tensor] = known[node.name, k]
        elif (
            node.op in READS
            and not node.stateful
            and handles.get(node.inputs[0]) in inner.by_handle
        ):
            index = inner.by_handle[handles[node.inputs[0]]]
            nodes += _read_saved(node, given[index], renamed)
        else:
            nodes.append(node)
    outputs = tuple(renamed.get(tensor, tensor) for tensor in graph.outputs)
    made = without_dead(Graph((*graph.inputs, *given), tuple(nodes), outputs))
    _check_defined(made, inner)
    program.graph = made


def _positions(
    node: Node, program: Program, inner: Program, prefix: str
) -> Iterator[tuple[int, int | None]]:
    """Yield (position of a stateful forward node's result, its index among saved values)."""
    known = inner.by_name.get(node.name.removeprefix(prefix))
    if known is None:
        raise GradientError(
            f"{inner.settings.name}: the stateful {node.op} {node.name!r} of the forward pass is "
            "not the same when its gradient is traced"
        )
    program.by_name[node.name] = known
    yield from enumerate(known)


def _read_saved(node: Node, value: Tensor, renamed: dict[Tensor, Tensor]) -> list[Node]:
    """Return nodes that read from a saved value what `node` reads from the variable."""
    if node.op == "read_variable":
        renamed[node.output] = value
        return []
    if node.op not in ("ResourceGather", "ResourceGatherNd"):
        return [node]
    if node.op == "ResourceGatherNd":
        return [dataclasses.replace(node, op="GatherNd", inputs=(value, node.inputs[1]), attrs={})]
    batch = node.attrs.get("batch_dims", 0)
    axis = const(np.int32(batch), f"{node.name}/axis")  # type: ignore[arg-type]
    attrs = {"batch_dims": batch}
    inputs = (value, node.inputs[1], axis.output)
    return [axis, dataclasses.replace(node, op="take", inputs=inputs, attrs=attrs)]


def _check_defined(graph: Graph, inner: Program) -> None:
    """Check that the gradient needs no value that only rerunning an effect or a read would give."""
    lost = _undefined(graph)
    if lost is not None:
        raise GradientError(
            f"{inner.settings.name}: the gradient needs {lost}, a handle that a side effect gave, "
            "which cannot run twice"
        )
    inside = (
        inner_node for node in graph.nodes for _, sub in node.subgraphs for inner_node in walk(sub)
    )
    for node in inside:
        if node.op in READS and node.op != "VariableShape":
            raise GradientError(
                f"{inner.settings.name}: the gradient reads a variable inside of control flow "
                f"({node.name}), where its value at the forward pass is not known"
            )


def _undefined(graph: Graph) -> Tensor | None:
    """Return a tensor that a graph or a sub-graph uses but does not define, or None."""
    defined = set(graph.inputs)
    for node in graph.nodes:
        found = next((tensor for tensor in node.inputs if tensor not in defined), None)
        for _, sub in node.subgraphs:
            found = found or _undefined(sub)
        if found is not None:
            return found
        defined.update(node.outputs)
    return next((tensor for tensor in graph.outputs if tensor not in defined), None)
