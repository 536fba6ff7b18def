"""Ops that a cluster replaces by others: XLA's own code loses NaNs, or creates some from zeros.

XLA is built with comparisons that lose a NaN in a maximum, and its gradients of roots and quotients
compute 0 / 0 where TensorFlow's kernels return 0. These forms keep the numbers of the kernels, and
a chain of pointwise ops is not cut in two by such an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_exla.ir.graph import Node

Value = Any
"""A tensor of the framework."""
Emit = Callable[..., Value]
"""Emits one op: its kind, operands, and attributes in addition to the type of the first operand.

"Const" has two operands: a number, and the tensor whose dtype it takes."""
Form = Callable[[Emit, Node, Sequence[Value]], Value]


def extreme(keeps_first: str) -> Form:
    """Select x where the comparison of x with y holds, else y; a NaN in either is the result.

    A comparison with NaN is false and selects the second operand. So x is tested for NaN, unless
    one operand is known to have none.
    """

    def form(emit: Emit, node: Node, inputs: Sequence[Value]) -> Value:
        known = [tensor.value for tensor in node.inputs]
        x, y = inputs
        if known[0] is not None and not np.isnan(known[0]).any():
            return emit("SelectV2", emit(keeps_first, x, y), x, y)
        if known[1] is not None and not np.isnan(known[1]).any():
            return emit("SelectV2", emit(keeps_first, y, x), y, x)
        larger = emit("SelectV2", emit(keeps_first, x, y), x, y)
        return emit("SelectV2", emit("IsNan", x), x, larger)

    return form


def sqrt_grad(emit: Emit, node: Node, inputs: Sequence[Value]) -> Value:
    """0.5 / y * dy"""
    root, upstream = inputs
    return emit("MulNoNan", emit("RealDiv", emit("Const", 0.5, root), root), upstream)


def rsqrt_grad(emit: Emit, node: Node, inputs: Sequence[Value]) -> Value:
    """-0.5 y * y * (y * dy)"""
    root, upstream = inputs
    square = emit("Mul", emit("Const", -0.5, root), emit("Mul", root, root))
    return emit("MulNoNan", square, emit("MulNoNan", root, upstream))


def reciprocal_grad(emit: Emit, node: Node, inputs: Sequence[Value]) -> Value:
    """-y * y * dy"""
    reciprocal, upstream = inputs
    return emit("MulNoNan", emit("Neg", emit("Mul", reciprocal, reciprocal)), upstream)


def sigmoid_grad(emit: Emit, node: Node, inputs: Sequence[Value]) -> Value:
    """dy * (y * (1 - y))"""
    y, upstream = inputs
    return emit("Mul", upstream, emit("Mul", y, emit("Sub", emit("Const", 1.0, y), y)))
