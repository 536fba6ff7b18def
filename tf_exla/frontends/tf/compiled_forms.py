"""Ops that go into a cluster as others: XLA's own code for them loses NaNs, or makes some of zeros.

XLA is built with comparisons that let a NaN go in a maximum, and its gradients of roots and
quotients make 0 / 0 where TensorFlow's kernels make 0. In these forms the numbers stay those of the
kernels, and a chain of pointwise ops is not cut in two by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.graph import Node

Emit = Callable[..., tf.Tensor]
"""Emits one op: its kind, its operands, and attributes beside the type of the first operand."""
Form = Callable[[Emit, Node, Sequence[tf.Tensor]], tf.Tensor]


def has_form(node: Node) -> bool:
    """Return whether a cluster holds other ops for this one; of floating-point numbers only."""
    return node.op in FORMS and node.output.dtype in ("float32", "float64")


def emit_form(op: Callable[..., tf.Operation], node: Node, inputs: Sequence[tf.Tensor]) -> Any:
    """Emit the ops that stand for `node` on `inputs`; `op` emits one; return their result."""

    def emit(kind: str, *operands: tf.Tensor, **attrs: Any) -> tf.Tensor:
        attrs = {"T": operands[-1].dtype.name, **attrs}
        made = op(kind, list(operands), attrs, name=f"{node.name or node.op}/{kind}")
        result: tf.Tensor = made.outputs[0]
        return result

    return FORMS[node.op](emit, node, inputs)


def _extreme(keeps_first: str) -> Form:
    """x where the comparison of x with y holds, else y; a NaN in either is the result.

    A comparison with NaN is false, so that y is taken: x needs a look where y is not known.
    """

    def form(emit: Emit, node: Node, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        known = [tensor.value for tensor in node.inputs]
        x, y = inputs
        if known[0] is not None and not np.isnan(known[0]).any():
            return emit("SelectV2", emit(keeps_first, x, y), x, y)
        if known[1] is not None and not np.isnan(known[1]).any():
            return emit("SelectV2", emit(keeps_first, y, x), y, x)
        larger = emit("SelectV2", emit(keeps_first, x, y), x, y)
        return emit("SelectV2", emit("IsNan", x), x, larger)

    return form


def _sqrt_grad(emit: Emit, node: Node, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    root, upstream = inputs
    return emit("MulNoNan", emit("RealDiv", _number(0.5, root), root), upstream)


def _rsqrt_grad(emit: Emit, node: Node, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    root, upstream = inputs
    square = emit("Mul", _number(-0.5, root), emit("Mul", root, root))
    return emit("MulNoNan", square, emit("MulNoNan", root, upstream))


def _reciprocal_grad(emit: Emit, node: Node, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    reciprocal, upstream = inputs
    return emit("MulNoNan", emit("Neg", emit("Mul", reciprocal, reciprocal)), upstream)


def _sigmoid_grad(emit: Emit, node: Node, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    y, upstream = inputs
    return emit("Mul", upstream, emit("Mul", y, emit("Sub", _number(1.0, y), y)))


def _number(value: float, like: tf.Tensor) -> tf.Tensor:
    with like.graph.as_default():
        return tf.constant(value, like.dtype)


FORMS: Mapping[str, Form] = {
    "InvGrad": _reciprocal_grad,
    "Maximum": _extreme("GreaterEqual"),
    "Minimum": _extreme("LessEqual"),
    "ReciprocalGrad": _reciprocal_grad,
    "RsqrtGrad": _rsqrt_grad,
    "SigmoidGrad": _sigmoid_grad,
    "SqrtGrad": _sqrt_grad,
}
