"""Emit `random_rows`: rows of a stateless random tensor, with the same bits as in the whole tensor.

TensorFlow's kernels (core/kernels/random_op_cpu.h, stateless_random_ops_v2.cc) draw four numbers of
up to 32 bits from one counter, or two of 64 bits. A truncated normal may draw again, and reserves
64 counters for each number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.emit import emit_const, is_large
from tf_exla.frontends.tf.emitter import Emitter
from tf_exla.ir.graph import Node, item_bytes


def numbers_of_a_counter(dtype: str) -> int:
    """Return how many numbers of a dtype one counter yields, or how many are drawn together."""
    return 2 if item_bytes(dtype) == 8 else 4


def emit_random_rows(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Draw the consecutive rows whose numbers operand 0 holds."""
    inputs = emitter.values(node.inputs)
    rows, _, key, counter, *rest = inputs
    random, dims = str(node.attrs["random"]), node.output.dims
    each, group = math.prod(dims[1:]), numbers_of_a_counter(node.output.dtype)

    def op(kind: str, operands: list[tf.Tensor], large: bool = False, **attrs: Any) -> tf.Tensor:
        return emitter.op(kind, operands, attrs, large=large and is_large(node.output)).outputs[0]

    def number(value: Any, dtype: str = "int64") -> tf.Tensor:
        return emit_const(emitter.graph, np.asarray(value, dtype))

    def part(value: tf.Tensor, begin: tf.Tensor, count: int, large: bool = False) -> tf.Tensor:
        return op("Slice", [value, begin, number([count])], large)

    # An anchor, since TensorFlow would keep numbers that it can draw before the program runs.
    first = part(rows, emitter.anchor(np.zeros(1, np.int64), "int64"), 1)
    first = op("Mul", [first, number(each)])
    counters = op("FloorDiv", [first, number(group)])
    if random == "stateless_truncated_normal":
        counters = op("Mul", [counters, number(64 * group)])
    counter = _later(op, part, number, counter, counters)
    attrs = {key: value for key, value in node.attrs.items() if key != "random"}
    if each % group == 0:
        shape = number(dims)
        return [op(random, [shape, key, counter, *rest], True, **attrs)]
    # The rows may begin within the numbers of one counter: draw more and slice.
    count = math.prod(dims)
    more = op(random, [number([count + group - 1]), key, counter, *rest], True, **attrs)
    begin = op("FloorMod", [first, number(group)])
    drawn = part(more, begin, count, True)
    return [op("Reshape", [drawn, number(dims)], True)]


def _later(op: Any, part: Any, number: Any, counter: tf.Tensor, by: tf.Tensor) -> tf.Tensor:
    """Add `by` to a counter of two words, the lower first."""
    by = op("Cast", [by], dtype="uint64")
    low, high = (part(counter, number([at]), 1) for at in (0, 1))
    after = op("AddV2", [low, by])
    carry = op("Less", [after, low])
    carry = op("Cast", [carry], dtype="uint64")
    high = op("AddV2", [high, carry])
    return op("ConcatV2", [after, high, number(0, "int32")])
