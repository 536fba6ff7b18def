"""Emit `random_rows`: parts of a stateless random tensor, with the bits that they have in it.

TensorFlow's kernels (core/kernels/random_op_cpu.h, stateless_random_ops_v2.cc) draw four numbers of
up to 32 bits from one counter, or two of 64 bits. A truncated normal may draw again, and reserves
64 counters for each number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import DEVICE
from tf_exla.frontends.tf.nodes.names import tensorflow_name
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node, item_bytes
from tf_exla.vocabulary.random_rows import are_parts, drawn_together, numbers_of_a_counter


def emit_random_rows(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Draw the consecutive rows and columns whose numbers operands 0 and 1 hold.

    Whole rows are drawn at once, and so are blocks of short rows of which parts are needed. Of
    long rows, the part of each is drawn by itself.
    """
    rows, columns, _, *rest = emitter.values(node.inputs)
    count, *row = node.output.dims
    each, whole, of_column = math.prod(row), int(str(node.attrs["row"])), math.prod(row[1:])
    size = item_bytes(node.output.dtype)
    group = numbers_of_a_counter(size)
    draw = _Draw(node, rest, group)
    # An anchor, since TensorFlow would keep numbers that it can draw before the program runs.
    zero = emitter.anchor(np.zeros(1, np.int64), "int64")
    with emitter.order.around() as results:
        first = (rows + zero) * whole
        if not are_parts(node.output.dims, node.attrs):
            numbers = draw(first[:1], count * each, whole % group == 0)
        elif together := drawn_together(node.output.dims, node.attrs, size):
            start = [tf.zeros([], tf.int64), columns[0] * of_column]

            def part(one: tf.Tensor) -> tf.Tensor:
                block = draw(one[None], together * whole, whole % group == 0)
                block = tf.reshape(block, [together, whole])
                return tf.slice(block, tf.stack(start), [together, each])

            parts = _mapped(part, first[::together], [together, each], node)
            numbers = tf.reshape(parts, [-1, each])[:count]
        else:
            aligned = whole % group == of_column % group == 0
            first += columns[0] * of_column
            numbers = _mapped(lambda one: draw(one[None], each, aligned), first, [each], node)
        results.append(tf.reshape(numbers, node.output.dims))
    return list(results)


def _mapped(
    part: Callable[[tf.Tensor], tf.Tensor], first: tf.Tensor, shape: list[int], node: Node
) -> tf.Tensor:
    """Stack the parts that begin with the numbers `first`."""
    if first.shape[0] == 1:
        return part(first[0])[None]
    result = tf.TensorSpec(shape, node.output.dtype)
    return tf.map_fn(part, first, fn_output_signature=result, parallel_iterations=1)


@dataclass(frozen=True)
class _Draw:
    """Draws numbers of a random tensor.

    `rest`: key, counter, algorithm, and bounds if any. `group`: the numbers drawn from one counter.
    """

    node: Node
    rest: list[tf.Tensor]
    group: int

    def __call__(self, first: tf.Tensor, count: int, aligned: bool) -> tf.Tensor:
        """Draw `count` numbers from `first` on; `aligned`: a counter begins there."""
        counters = first // self.group
        if self.node.attrs["random"] == "stateless_truncated_normal":
            counters *= 64 * self.group
        if aligned:
            return self._drawn(count, counters)
        # They may begin within the numbers of one counter: draw more and slice.
        more = self._drawn(count + self.group - 1, counters)
        return tf.slice(more, first % self.group, [count])

    def _drawn(self, count: int, counters: tf.Tensor) -> tf.Tensor:
        key, counter, algorithm, *bounds = self.rest
        counter = _later(counter, tf.cast(counters, tf.uint64))
        named = dict(zip(("minval", "maxval"), bounds, strict=False))
        if not bounds:
            named["dtype"] = tf.as_dtype(self.node.output.dtype)
        kernel = getattr(tf.raw_ops, tensorflow_name(str(self.node.attrs["random"])))
        with tf.device(self.node.attrs.get(DEVICE)):
            return kernel(shape=[count], key=key, counter=counter, alg=algorithm, **named)


def _later(counter: tf.Tensor, by: tf.Tensor) -> tf.Tensor:
    """Add `by` to a counter of two words, the lower first."""
    low = counter[:1] + by
    carry = tf.cast(low < by, tf.uint64)
    return tf.concat([low, counter[1:] + carry], 0)
