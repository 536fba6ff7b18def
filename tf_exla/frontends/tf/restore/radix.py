"""Emit the ops of a radix select (`vocabulary/radix.py`)."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node, item_bytes
from tf_exla.vocabulary.radix import shift_of


def emit_counts(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Count the next bits of the keys of operand 0, for one prefix after the other."""
    x, state = emitter.values(node.inputs)
    width, size = 8 * item_bytes(node.inputs[0].dtype), node.output.dims[1]
    signed, unsigned = tf.as_dtype(f"int{width}"), tf.as_dtype(f"uint{width}")
    with emitter.order.around() as results:
        shift = tf.constant(shift_of(node), unsigned)
        bits = tf.bitcast(x, signed)
        sign = tf.bitwise.right_shift(bits, tf.constant(width - 1, signed))
        key = tf.bitwise.bitwise_xor(bits, tf.bitwise.bitwise_and(sign, signed.max))
        key = tf.where(tf.math.is_nan(x), tf.constant(signed.max, signed), key)
        key = tf.bitcast(key, unsigned)
        found: list[tf.Tensor] = []
        for column in range(node.inputs[1].dims[1]):
            with tf.control_dependencies(found[-1:]):  # so that only one has scratch memory
                # Unsigned, since TensorFlow subtracts and reshapes int32 on the host.
                above = key - tf.bitcast(state[0, column], unsigned)
                digit = tf.minimum(
                    tf.bitwise.right_shift(above, shift), tf.constant(size, unsigned)
                )
                digit = tf.cast(tf.reshape(digit, [-1]), tf.int32)
                found.append(_count(digit, size))
        results.append(tf.stack(found))
    return list(results)


def _count(digit: tf.Tensor, size: int) -> tf.Tensor:
    """Count numbers below `size`, without Bincount where it refuses to be deterministic."""
    if device() == "GPU" and config.is_op_determinism_enabled():
        return tf.math.unsorted_segment_sum(tf.ones_like(digit), digit, size + 1)[:size]
    return tf.raw_ops.Bincount(arr=digit, size=size, weights=np.zeros(0, np.int32))


def emit_step(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Append the next bits of the wanted elements to the prefixes."""
    counts, state = emitter.values(node.inputs)
    with emitter.graph.as_default():
        counts = tf.cast(counts, state.dtype)
        prefixes, ranks = tf.unstack(state)
        through = tf.cumsum(counts, 1)
        digit = tf.reduce_sum(tf.cast(through <= ranks[:, None], tf.int32), 1)
        digit = tf.minimum(digit, node.inputs[0].dims[1] - 1)
        before = tf.gather(through - counts, digit, batch_dims=1)
        shift = tf.constant(shift_of(node), state.dtype)
        prefixes += tf.bitwise.left_shift(tf.cast(digit, state.dtype), shift)
        return [tf.stack([prefixes, tf.maximum(ranks - before, 0)])]


def emit_values(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Return the floats whose keys are the prefixes."""
    (state,) = emitter.values(node.inputs)
    with emitter.graph.as_default():
        key = state[0]
        bits = tf.where(key < 0, tf.bitwise.bitwise_xor(key, key.dtype.max), key)
        return [tf.bitcast(bits, tf.as_dtype(node.output.dtype))]
