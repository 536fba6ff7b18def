"""What the tapes of TensorFlow ask of a call: whether it is recorded, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, forwardprop_util, record
from tensorflow.python.ops import gradients_util, script_ops

from tf_exla.ir.graph import Graph
from tf_exla.ir.traverse import walk

Gradients = list[tf.Tensor | tf.IndexedSlices | None]
"""The gradient of each input, None if it is not connected or not requested."""


def may_be_recorded(inputs: Sequence[tf.Tensor]) -> bool:
    """Return whether the gradient of a call with `inputs` may be requested."""
    kind = gradients_util.PossibleTapeGradientTypes(inputs)
    none = kind == gradients_util.POSSIBLE_GRADIENT_TYPES_NONE
    return not (none and context.executing_eagerly())


def watched(inputs: Sequence[tf.Tensor]) -> tuple[bool, ...]:
    """Return which inputs the active tapes watch; all if they watch none."""
    found = tuple(record.should_record_backprop([tensor]) for tensor in inputs)
    return found if any(found) else (True,) * len(inputs)


def has_tangents(inputs: Sequence[tf.Tensor]) -> bool:
    """Return whether a forward accumulator has a tangent of any of `inputs`."""
    return bool(forwardprop_util.pack_tangents(inputs).tangents)


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


def recorded_backward(
    gradient: Callable[[], Callable[..., Gradients]],
    inputs: Sequence[tf.Tensor],
    saved: Sequence[tf.Tensor],
    forward: bool,
) -> Callable[..., Gradients]:
    """Return what a tape records as the gradient of a call with `inputs`.

    `forward`: a forward accumulator differentiates the gradient, for which it takes no slices.
    """

    def backward(*upstream: Any) -> Gradients:
        made = gradient()(inputs, upstream, saved, forward)
        if forward:
            made = [None if one is None else tf.convert_to_tensor(one) for one in made]
        return made

    return backward
