"""Emitters of ops that TensorFlow lacks or has with faults, and of `top_k` in chunks."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tf_exla.frontends.tf.capture.ragged import TOTALS
from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.nodes.emit import is_large
from tf_exla.frontends.tf.ops.convolutions import OPERANDS, has_cpu_kernel
from tf_exla.frontends.tf.restore.compiled import alone, emit_compiled
from tf_exla.frontends.tf.restore.emitter import Emitter, Special
from tf_exla.frontends.tf.restore.loops import emit_loop
from tf_exla.frontends.tf.restore.narrow_products import emit_narrow
from tf_exla.frontends.tf.restore.positions import emit_best
from tf_exla.frontends.tf.restore.products import emit_batch_matmul
from tf_exla.frontends.tf.restore.radix import emit_counts, emit_step, emit_values
from tf_exla.frontends.tf.restore.random_rows import emit_random_rows
from tf_exla.frontends.tf.restore.running_top_k import emit_chunk_top_k, emit_running_top_k
from tf_exla.frontends.tf.restore.scattering import emit_scatter_rows
from tf_exla.frontends.tf.restore.whole_forms import (
    emit_cross_entropy,
    emit_extreme,
    emit_take,
    emit_top_k,
)
from tf_exla.ir.graph import Loop, Node
from tf_exla.model.top_k import CHUNKED


def _loop(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    assert isinstance(node, Loop)
    return emit_loop(emitter, node, emitter.values(node.inputs))


def _top_k(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    if emitter.compiled:
        return emit_top_k(emitter, node)
    if CHUNKED not in node.attrs or emitter.begins:
        return None
    return emit_chunk_top_k(emitter, node)


def _batch_matmul(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    return emit_narrow(emitter, node) or emit_batch_matmul(emitter, node)


def _share_variable(emitter: Emitter, node: Node) -> None:
    """Emit an op that ends the mode in which each read or assignment of a variable copies it.

    It precedes a large read or assignment. TensorFlow begins that mode with the first sparse update
    and never ends it. The next sparse update begins it again, and copies the variable if another
    tensor shares its buffer.
    """
    if is_large(*node.inputs[1:], *node.outputs) and not emitter.compiled:
        handle = emitter.values(node.inputs[:1])
        emitter.op("DisableCopyOnRead", handle, {}, large=True, stateful=node.stateful)


def _convolution(emitter: Emitter, node: Node) -> list[tf.Tensor] | None:
    """Emit a convolution that XLA compiles alone, as the CPU has no kernel for it."""
    if emitter.compiled or device() == "GPU":
        return None
    if has_cpu_kernel(node.op, node.inputs, node.output, node.attrs):
        return None
    return emit_compiled(emitter, alone(node))


def _with_total(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit an op without its last operand, a size that TensorFlow computes itself."""
    operands, large = emitter.values(node.inputs[:-1]), is_large(*node.inputs, *node.outputs)
    made = emitter.op(TOTALS[node.op], operands, node.attrs, large=large, name=node.name)
    return list(made.outputs)


SPECIAL: Mapping[str, Special] = {
    "batch_matmul": _batch_matmul,
    "xla_cluster": emit_compiled,
    **dict.fromkeys(OPERANDS, _convolution),
    "cross_entropy": emit_cross_entropy,
    "loop": _loop,
    "matmul": emit_narrow,
    **dict.fromkeys(("max", "min"), emit_extreme),
    "max_with_position": emit_best,
    "min_with_position": emit_best,
    "radix_counts": emit_counts,
    "radix_step": emit_step,
    "radix_values": emit_values,
    "random_rows": emit_random_rows,
    **dict.fromkeys(("read_variable", "AssignVariableOp"), _share_variable),
    **dict.fromkeys(TOTALS, _with_total),
    "running_top_k": emit_running_top_k,
    "scatter_rows": emit_scatter_rows,
    "take": emit_take,
    "top_k": _top_k,
    "update_rows": emit_scatter_rows,
}
