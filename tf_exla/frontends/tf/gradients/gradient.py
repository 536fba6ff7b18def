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
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import backprop_util, record
from tensorflow.python.eager.polymorphic_function import concrete_function, function_type_utils
from tensorflow.python.framework import func_graph, indexed_slices
from tensorflow.python.ops import gradients_util

from tf_exla.frontends.tf.capture.scope import CALLS
from tf_exla.frontends.tf.gradients.plain_gradient import PlainGradient
from tf_exla.frontends.tf.gradients.tapes import Gradients
from tf_exla.frontends.tf.nodes.emit import new_graph, placeholder
from tf_exla.frontends.tf.planning.settings import Program, Settings, gradient_name
from tf_exla.frontends.tf.tracing import is_tracing


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
        concrete, prefix, self.gradients = _trace(program, mask, self.trainable)
        name = gradient_name(program.settings.name)
        settings = dataclasses.replace(program.settings, name=name)
        self.concrete = concrete
        self.program: Program | PlainGradient | None = None
        if not self.gradients:
            return
        self._make = partial(make, concrete, inner=program, prefix=prefix)
        self._settings = settings
        try:
            self.program = self._make(settings)
        except Exception as error:
            self._fall_back(settings, error)

    def ready(self, arguments: Sequence[Any]) -> None:
        """Plan the gradient, or fall back to TensorFlow's. Raises `MemoryLimitError`."""
        if self.program is None or isinstance(self.program, PlainGradient):
            return
        try:
            self.program.ready(arguments)
        except Exception as error:
            self._fall_back(self.program.settings, error)

    def __call__(
        self,
        inputs: Sequence[tf.Tensor],
        upstream: Sequence[Any],
        saved: Sequence[tf.Tensor],
        forward: bool = False,
    ) -> Gradients:
        """Return the gradient of each input, None if it is not connected or not requested.

        `upstream`: a gradient for each output, or None. `forward`: see `Program.run`.
        """
        made: Gradients = [None] * len(inputs)
        if self.program is None:
            return made
        given = [self._upstream(k, upstream[k]) for k in self.trainable]
        arguments = [*inputs, *given, *self.concrete.captured_inputs]
        results = iter(self._to_run(arguments).run(arguments, saved, forward))
        for position, sparse in self.gradients.items():
            parts = [next(results) for _ in range(3 if sparse else 1)]
            made[position] = tf.IndexedSlices(*parts) if sparse else parts[0]
        return made

    def _to_run(self, arguments: Sequence[Any]) -> Program | PlainGradient:
        """Return the planned gradient, or the original one inside of another optimized function.

        That function plans the gradient with everything else. `tape.jacobian` vectorizes gradients
        in its trace, which it could not do with the loops of a plan.
        """
        assert self.program is not None
        whole = is_tracing() and not tf.executing_eagerly()
        if not whole or isinstance(self.program, PlainGradient):
            self.ready(arguments)
            return self.program
        return self._unplanned

    @cached_property
    def _unplanned(self) -> Program:
        return self._make(self._settings.without_limit())

    def _fall_back(self, settings: Settings, error: Exception) -> None:
        settings.guard.take(settings.name, error)
        self.program = PlainGradient(self.forward, self.concrete, error)

    def _upstream(self, position: int, value: Any) -> tf.Tensor:
        if value is None:
            output = self.forward.graph.outputs[position]
            return tf.zeros(output.dims, tf.as_dtype(output.dtype))
        return tf.convert_to_tensor(value)


def backward_function(program: Program) -> Callable[..., Gradients]:
    """Return the gradient function of an op that calls `program`.

    It reads all values from the op, since the gradient may be built in another graph, which then
    captures the op's operands and results.
    """
    count = program.captured.inputs
    first = count + len(program.captured.constants)

    def backward(op: tf.Operation, *upstream: Any) -> Gradients:
        saved = [*op.inputs[first : first + program.first_save], *op.outputs[program.count :]]
        gradient = program.gradient((True,) * count)
        made = gradient(op.inputs[:count], upstream[: program.count], saved)
        return [*made, *[None] * (len(op.inputs) - count)]

    return backward


def _trace(
    program: Program, mask: tuple[bool, ...], trainable: Sequence[int]
) -> tuple[Any, str, dict[int, bool]]:
    """Trace the gradient as a function of the inputs and of the upstream gradients.

    `mask`: the inputs with respect to which it is differentiated. `trainable`: the positions of the
    outputs that have an upstream gradient.

    Returns the function, the prefix of the names of the forward pass in it, and the inputs that
    have a gradient: by position, whether the gradient is a `tf.IndexedSlices`. Of such a gradient,
    the function returns the values, the indices and the shape of the whole.
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
        gradients, results = {}, []
        for k, made in zip(wanted, found, strict=True):
            if made is not None:
                gradients[k] = _is_sparse(made)
                results += (
                    [made.values, made.indices, made.dense_shape]
                    if gradients[k]
                    else [tf.convert_to_tensor(made)]
                )
    _finish(graph, [*inputs, *upstream], results)
    made = concrete_function.ConcreteFunction.from_func_graph(
        graph, function_type_utils.derive_from_graph(graph), {}
    )
    return made, f"{call.name}/", gradients


def _finish(graph: func_graph.FuncGraph, inputs: list[tf.Tensor], outputs: list[tf.Tensor]) -> None:
    graph.inputs = [*inputs, *graph.internal_captures]
    # An output must be the result of an op of this graph, also if it is an input.
    with graph.as_default():
        graph.outputs = [tf.identity(tensor) for tensor in outputs]
    graph.structured_outputs = tuple(graph.outputs)
    graph.control_outputs = [
        op for op in graph.get_operations() if op._is_stateful and op.type != "Placeholder"
    ]


def _is_sparse(gradient: Any) -> bool:
    return isinstance(gradient, indexed_slices.IndexedSlices) and gradient.dense_shape is not None
