"""The `OpSet` of TensorFlow: queries of passes about ops, answered without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import cast
from weakref import WeakKeyDictionary

from tf_exla.frontends.tf.device import Device, device_rates, rounds_factors
from tf_exla.frontends.tf.device import device as visible_device
from tf_exla.frontends.tf.ops.compiled import compiles
from tf_exla.frontends.tf.ops.memory.call import TensorLike, nothing
from tf_exla.frontends.tf.ops.scratch import gpu_scratch_bytes, scratch_bytes
from tf_exla.frontends.tf.ops.size_bounds import size_bounds
from tf_exla.frontends.tf.ops.table import record
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Node
from tf_exla.ir.lists import ListEffect
from tf_exla.ir.op_set import Compiles
from tf_exla.ir.rates import Rates
from tf_exla.ir.refusal import Refusal
from tf_exla.vocabulary.meaning import Meaning
from tf_exla.vocabulary.op_set import VocabularyOps
from tf_exla.vocabulary.rules.builders import words


class TensorFlowOps(VocabularyOps):
    """The ops of TensorFlow.

    `threads`: the number a kernel may use; some kernels have scratch memory for each thread.
    `device`: the device that ops run on, by default TensorFlow's.
    """

    def __init__(self, threads: int | None = None, device: Device | None = None) -> None:
        self._device = device
        self.threads = threads or os.cpu_count() or 1
        self._bounds: WeakKeyDictionary[Node, tuple[tuple[Most, ...], list[Most]]] = (
            WeakKeyDictionary()
        )

    def meaning(self, op: str) -> Meaning:
        """Return the record of an op by its name in graphs."""
        return record(op)

    def _bound(self, node: Node) -> AxisRule | Refusal:
        if record(node.op).rule is not None:
            for tensor in (*node.inputs, *node.outputs):
                if tensor.dtype not in _IN_PARTS:
                    return Refusal(
                        f"{node.op} is not split here: TensorFlow has no parts of {tensor.dtype}"
                    )
        return super()._bound(node)

    @property
    def device(self) -> Device:
        """The device that ops run on."""
        return self._device or visible_device()

    def rates(self) -> Rates:
        """Return the rates of the device, by which plans are compared."""
        return device_rates(self.device)

    def picks_rows(self) -> bool:
        """Return whether selecting a data-dependent number of rows is cheap.

        On a GPU the host waits for that number before it continues.
        """
        return self.device == "CPU"

    def fuses_in_place(self) -> bool:
        """Return whether XLA's fused loops overwrite an operand that has no other reader.

        On a GPU the consumer of a product had a buffer of its own (measured).
        """
        return self.device == "CPU"

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Return an upper bound of the bytes that the kernel allocates beyond its outputs.

        `compiled`: also of what XLA's code calls for it. 0 if a shape is not known, since the bytes
        of the tensor itself are not known either.
        """
        bound = record(node.op).cpu
        if bound is nothing and not compiled and self.device != "GPU":
            return 0  # the case of most ops
        if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)):
            return 0
        inputs = cast(Sequence[TensorLike], node.inputs)  # their shapes are static
        outputs = cast(Sequence[TensorLike], node.outputs)
        if self.device == "GPU":
            return gpu_scratch_bytes(node.op, inputs, outputs, node.attrs)
        return scratch_bytes(node.op, inputs, outputs, node.attrs, self.threads, compiled)

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""
        return record(node.op).view == "always" or (node.op == "slice" and _is_view(node))

    def may_alias(self, node: Node) -> bool:
        """Return whether outputs may share a part of the first input's buffer, or be copies.

        Whole rows may be views. Other ops pass the buffer on only if no element changes.
        """
        view = record(node.op).view
        if view == "part":
            return _may_be_rows(node)
        return (
            view == "same"
            and bool(node.inputs)
            and any(tensor.nbytes == node.inputs[0].nbytes for tensor in node.outputs)
        )

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return the inputs whose buffer the first output certainly reuses after their last use."""
        reuses = record(node.op).reuses
        return tuple(k for k in reuses if k < len(node.inputs)) if reuses else ()

    def stores(self, node: Node) -> int | None:
        """Return the input that a variable or a list keeps after the node; None if none does."""
        return record(node.op).stores

    def rounds_factors(self, dtype: str) -> bool:
        """Return whether products round their factors to fewer digits than sums."""
        return rounds_factors(dtype)

    def repeats(self, node: Node) -> bool:
        """Return whether the kernel computes the same numbers from the same operands each time."""
        return not record(node.op).unordered

    def compiles(self, node: Node) -> Compiles:
        """Return how well XLA compiles the node on a CPU."""
        return compiles(node, record(node.op))

    def joint(self, node: Node) -> bool:
        """Return whether all results together are not larger than the first operand."""
        return node.op == "DynamicPartition"

    def bounds(self, node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        """Return upper bounds of the results' sizes and integers, from those of the operands."""
        known = self._bounds.get(node)
        key = tuple(operands)
        if known is None or known[0] != key:
            known = self._bounds[node] = key, size_bounds(node, record(node.op), operands)
        return known[1]

    def not_smaller(self, node: Node) -> bool:
        """Return whether no operand has more elements than the result, unless it is empty."""
        return record(node.op).size in ("broadcast", "equal", "not smaller")

    def keeps(self, node: Node) -> ListEffect | None:
        """Return the effect of a node on the list in its result, or None if unknown."""
        effect = record(node.op).list_effect
        return effect(node) if callable(effect) else effect


_ALIGNMENT = 64  # bytes; EIGEN_MAX_ALIGN_BYTES is at most that


def _is_view(node: Node) -> bool:
    """Return whether a Slice takes whole, aligned rows, which its kernel does not copy."""
    if not (node.inputs[0].is_static and node.output.is_static):
        return False
    whole, part, begin = node.inputs[0].dims, node.output.dims, node.inputs[1].value
    if len(whole) < 2 or whole[1:] != part[1:] or begin is None or begin[1:].any():
        return False
    row = node.inputs[0].nbytes // whole[0] if whole[0] else 0
    return row > 0 and row % _ALIGNMENT == 0


def _may_be_rows(node: Node) -> bool:
    """Return whether parts may be whole rows of the first axis; the kernels copy all others."""
    whole, part = max(node.inputs, key=lambda tensor: tensor.nbytes), node.outputs[0]
    if not (whole.is_static and part.is_static):
        return True
    row = [size for size in whole.dims[1:] if size != 1]
    dims = [size for size in part.dims if size != 1]
    return dims[len(dims) - len(row) :] == row


# The dtypes that the kernels of loops support: Empty, Slice, TensorStridedSliceUpdate. Handles are
# not data.
_IN_PARTS = frozenset(
    words("""
    bfloat16 bool complex128 complex64 float16 float32 float64 int16 int32 int64 int8 resource
    string uint16 uint32 uint64 uint8 variant
""")
)


OPS = TensorFlowOps()
"""The op set that the functions of this process share."""
