"""What the passes ask about TensorFlow's ops, answered without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast
from weakref import WeakKeyDictionary

from tf_exla.frontends.tf.device import Device, rounds_factors
from tf_exla.frontends.tf.device import device as visible_device
from tf_exla.frontends.tf.ops.compiled import compiles
from tf_exla.frontends.tf.ops.memory.call import TensorLike
from tf_exla.frontends.tf.ops.scratch import gpu_scratch_bytes, scratch_bytes
from tf_exla.frontends.tf.ops.size_bounds import size_bounds
from tf_exla.frontends.tf.ops.table import record
from tf_exla.ir.axis_rule import AxisRule, AxisRuleError, bind
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Node, Shape, Tensor
from tf_exla.ir.lists import ListEffect, is_list
from tf_exla.ir.op_set import Compiles, NoRule, Work
from tf_exla.vocabulary import trip_counts
from tf_exla.vocabulary.make import make
from tf_exla.vocabulary.rebuild import rebuild
from tf_exla.vocabulary.rules.builders import Unruled, words

_bind = lru_cache(maxsize=16384)(bind)


class TensorFlowOps:
    """The ops of TensorFlow.

    `threads`: how many a kernel may use; scratch memory is per thread for some. `device`: the one
    that ops run on; TensorFlow's default where it is not given.
    """

    def __init__(self, threads: int | None = None, device: Device | None = None) -> None:
        self._device = device
        self.threads = threads or os.cpu_count() or 1
        self._bounds: WeakKeyDictionary[Node, tuple[tuple[Most, ...], list[Most]]] = (
            WeakKeyDictionary()
        )
        self._rules: WeakKeyDictionary[Node, AxisRule | NoRule] = WeakKeyDictionary()

    @property
    def device(self) -> Device:
        """The device that ops run on."""
        return self._device or visible_device()

    def rule(self, node: Node, lists: bool = False) -> AxisRule | NoRule:
        """Return the node's axis rule, or why there is none; `lists`: of lists, too."""
        if not lists and any(map(is_list, (*node.inputs, *node.outputs))):
            return NoRule(f"{node.op} is not split here: there are no parts of a list")
        known = self._rules.get(node)
        if known is None:
            known = self._rules[node] = _rule(node)
        return known

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        """Make the node again for a chunk: on `inputs`, with results of `shapes`."""
        rule = self.rule(node, lists=True)
        if isinstance(rule, NoRule):
            raise ValueError(f"{node} cannot be made for a chunk: {rule.reason}")
        return rebuild(node, record(node.op).rebuild, inputs, shapes, rule.shape_operands)

    def picks_rows(self) -> bool:
        """Return whether to pick some rows, their number not known before, costs little.

        A GPU tells the host their number before anything goes on.
        """
        return self.device == "CPU"

    def fuses_in_place(self) -> bool:
        """Return whether XLA's fused loops overwrite an operand that nobody else reads.

        On a GPU what follows a product had a buffer of its own beside it (measured).
        """
        return self.device == "CPU"

    def resizable(self, node: Node) -> bool:
        """Return whether `resized` can make the node for other shapes."""
        return isinstance(self.rule(node, lists=True), AxisRule)

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Return an upper bound of the bytes that the kernel allocates beside its outputs.

        `compiled`: what XLA's code calls for it. 0 where a shape is not known: such a tensor's own
        bytes are not known either.
        """
        if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)):
            return 0
        inputs = cast(Sequence[TensorLike], node.inputs)  # their shapes are static
        outputs = cast(Sequence[TensorLike], node.outputs)
        if self.device == "GPU":
            return gpu_scratch_bytes(node.op, inputs, outputs, node.attrs)
        return scratch_bytes(node.op, inputs, outputs, node.attrs, self.threads, compiled)

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""
        return record(node.op).view == "always" or _is_view(node)

    def may_alias(self, node: Node) -> bool:
        """Return whether outputs may share a part of the first input's buffer, or be copies.

        Slices may be views; the others pass the buffer on only where nothing changes.
        """
        view = record(node.op).view
        return view == "part" or (
            view == "same"
            and bool(node.inputs)
            and any(tensor.nbytes == node.inputs[0].nbytes for tensor in node.outputs)
        )

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return the inputs whose buffer the first output certainly reuses when they die there."""
        return tuple(k for k in record(node.op).reuses if k < len(node.inputs))

    def flops(self, node: Node) -> int:
        """Return the floating-point operations of the node; complex numbers count fourfold."""
        op = record(node.op)
        if op.flops == 0 or not all(tensor.is_static for tensor in node.outputs):
            return 0
        if callable(op.flops):
            count = op.flops(node)
        else:
            count = op.flops * max((tensor.size for tensor in node.outputs), default=0)
        is_complex = any(tensor.dtype.startswith("complex") for tensor in node.outputs)
        return 4 * count if is_complex else count

    def work(self, node: Node) -> Work:
        """Return the kind of the node's operations, which decides how long they take."""
        return record(node.op).work

    def rounds_factors(self, dtype: str) -> bool:
        """Return whether products round their factors to fewer digits than sums."""
        return rounds_factors(dtype)

    def repeats(self, node: Node) -> bool:
        """Return whether the kernel makes the same numbers of the same operands each time."""
        return not record(node.op).unordered

    def chooses(self, node: Node) -> bool:
        """Return whether results are some of an operand's numbers, though no combiner says so."""
        return record(node.op).chooses

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
        """Return whether no operand has more elements than the result, unless that is empty."""
        return record(node.op).size in ("broadcast", "equal", "not smaller")

    def keeps(self, node: Node) -> ListEffect | None:
        """Return what a node does to the list in its result; None where that cannot be told."""
        effect = record(node.op).list_effect
        return effect(node) if callable(effect) else effect

    def iterations(self, node: Node, bounds: Mapping[Tensor, int]) -> int | None:
        """Return an upper bound of a While's iterations; None where it is not known."""
        return trip_counts.iterations(node, bounds)

    def counted(self, node: Node, times: int) -> Mapping[Tensor, int]:
        """Return upper bounds of what a While that runs so often has counted."""
        return trip_counts.counted(node, times)

    def make(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
    ) -> Node | None:
        """Make a node for a rewrite, its result's shape inferred; None where it has no such op."""
        return make(op, inputs, attrs, name)


_ALIGNMENT = 64  # bytes; EIGEN_MAX_ALIGN_BYTES is at most that


def _is_view(node: Node) -> bool:
    """Return whether a Slice takes whole, aligned rows: then its kernel copies nothing."""
    if node.op != "slice" or not (node.inputs[0].is_static and node.output.is_static):
        return False
    whole, part, begin = node.inputs[0].dims, node.output.dims, node.inputs[1].value
    if len(whole) < 2 or whole[1:] != part[1:] or begin is None or begin[1:].any():
        return False
    row = node.inputs[0].nbytes // whole[0] if whole[0] else 0
    return row > 0 and row % _ALIGNMENT == 0


# The dtypes that the kernels of loops know: Empty, Slice, TensorStridedSliceUpdate. Handles are no
# data.
_IN_PARTS = frozenset(
    words("""
    bfloat16 bool complex128 complex64 float16 float32 float64 int16 int32 int64 int8 resource
    string uint16 uint32 uint64 uint8 variant
""")
)


def _rule(node: Node) -> AxisRule | NoRule:
    op = record(node.op)
    if op.rule is None:
        effects = "it has side effects, and stays outside of loops"
        absent = effects if node.stateful else "it is not in the table of axis rules"
        return NoRule(f"{node.op} is never split: {op.reason or absent}")
    for tensor in (*node.inputs, *node.outputs):
        if tensor.dtype not in _IN_PARTS:
            return NoRule(f"{node.op} is not split here: TensorFlow has no parts of {tensor.dtype}")
    try:
        text = op.rule if isinstance(op.rule, str) else op.rule(node)
        return _bind(
            text,
            tuple(tensor.axes for tensor in node.inputs),
            tuple(tensor.axes for tensor in node.outputs),
        )
    except (Unruled, AxisRuleError) as refusal:
        return NoRule(f"{node.op} is not split here: {refusal}")
