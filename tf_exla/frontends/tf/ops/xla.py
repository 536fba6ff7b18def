"""Which ops XLA compiles, and where its code for a CPU is slower than TensorFlow's own kernels.

Solves, decompositions and cumulative sums are not compiled: XLA's are slower, and work on copies.
"well": to code that is at least as fast, with the same zeros, infinities and NaNs. This excludes
erf, and the gradients of relu, elu and selu. "poorly": to code that is slower or not known to be
faster. Measured on 8 MB chunks with two cores: products run at the same speed, pointwise ops
between 0.9 and 3 times as fast, and poorly compiled ops down to a fifteenth.
"""

from __future__ import annotations

import math

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import Compiles

LONGEST_SUM = 1 << 14
"""The most terms of a sum. XLA adds float32 one by one, TensorFlow pairwise: for 200,000 numbers
ten times the error."""


def _is_real(tensor: Tensor) -> bool:
    return tensor.dtype.startswith(("float", "bfloat", "half", "complex"))


def no_nan(node: Node) -> Compiles:
    """Refuse reals: XLA is built to lose NaNs in maxima and minima."""
    return "" if _is_real(node.outputs[0]) else "well"


def real(node: Node) -> Compiles:
    """Refuse integers: TensorFlow raises an error for a division by zero, XLA does not."""
    return "well" if _is_real(node.outputs[0]) else ""


def slow_real(node: Node) -> Compiles:
    """Refuse integers: XLA has no error for a remainder by zero, and does not round them."""
    return "poorly" if _is_real(node.outputs[0]) else ""


def cast(node: Node) -> Compiles:
    """Refuse reals to integers: NaNs and numbers out of range become other integers."""
    return "" if _is_real(node.inputs[0]) and not _is_real(node.outputs[0]) else "well"


def short_sum(node: Node) -> Compiles:
    """Refuse sums of many float32, which are less exact."""
    terms = node.inputs[0].size // max(node.outputs[0].size, 1)
    return "" if terms > LONGEST_SUM and "64" not in node.outputs[0].dtype else "well"


def short_mean(node: Node) -> Compiles:
    """Refuse integers too: TensorFlow adds them in 64 bits, XLA in 32, where sums overflow."""
    return short_sum(node) if _is_real(node.outputs[0]) else ""


def one_product(node: Node) -> Compiles:
    """Avoid batches: their products run one after the other, at 0.6 of the speed."""
    return "poorly" if math.prod(node.output.dims[:-2]) > 1 else "well"


def not_in_float32(node: Node) -> Compiles:
    """Avoid float32, which runs at 0.2 of the speed."""
    return "poorly" if node.outputs[0].dtype == "float32" else "well"
