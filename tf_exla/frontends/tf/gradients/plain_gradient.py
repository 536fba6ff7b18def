"""The gradient of a program that tf_exla could not rewrite: TensorFlow's own, without a plan.

It recomputes the forward pass from the inputs. That is correct only if the forward pass has no side
effects and its variables still have the values that it read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from tf_exla.frontends.tf.planning.settings import Program


class PlainGradient:
    """The gradient of `forward` as the concrete function that was traced for it.

    Raises `error` again if the forward pass has side effects, since they must not run twice.
    """

    def __init__(self, forward: Program, concrete: Any, error: Exception) -> None:
        effect = next((node for node in forward.graph.nodes if node.stateful), None)
        if effect is not None:
            note = (
                f"{forward.settings.name}: its gradient cannot run as it was either, since "
                f"{effect.name} ({effect.op}) would run twice"
            )
            if sys.version_info < (3, 11):  # which has no notes
                raise error from RuntimeError(note)
            error.add_note(note)
            raise error
        self.forward = forward
        self.concrete = concrete

    def run(
        self, inputs: Sequence[tf.Tensor], saved: Sequence[tf.Tensor], forward: bool = False
    ) -> list[tf.Tensor]:
        """Return the gradients; `inputs` and `saved` are those of the rewritten gradient."""
        captured = self.concrete.captured_inputs
        arguments = list(inputs[: len(inputs) - len(captured)])
        unchanged = [
            self._unchanged(inputs[position], saved[index])
            for position, index in self.forward.by_handle.items()
        ]
        with tf.control_dependencies(unchanged):
            arguments = [
                one if one.dtype in (tf.resource, tf.variant) else tf.identity(one)
                for one in arguments
            ]
        return list(self.concrete._call_flat(arguments, captured))

    def _unchanged(self, handle: tf.Tensor, value: tf.Tensor) -> tf.Operation | None:
        now = resource_variable_ops.read_variable_op(handle, value.dtype)
        same = tf.reduce_all((now == value) | ((now != now) & (value != value)))  # NaNs stay NaNs
        message = (
            f"{self.forward.settings.name}: a variable was assigned between the call and its "
            "gradient, which tf_exla could not rewrite; optimize(..., strict=True) says why"
        )
        return tf.debugging.Assert(same, [message])
