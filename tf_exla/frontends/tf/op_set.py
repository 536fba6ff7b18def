"""What the passes ask about TensorFlow's ops, answered without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from weakref import WeakKeyDictionary

from tf_exla.axis_rule import AxisRule, AxisRuleError, bind
from tf_exla.frontends.tf import flops
from tf_exla.frontends.tf.op_rules import REASONS, TABLE
from tf_exla.frontends.tf.resize import resize
from tf_exla.frontends.tf.rule_builders import Unruled
from tf_exla.graph import Node, Shape, Tensor
from tf_exla.op_set import NoRule

_bind = lru_cache(maxsize=16384)(bind)


class TensorFlowOps:
    """The ops of TensorFlow.

    `threads`: how many a kernel may use; scratch memory is per thread for some.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1
        self._rules: WeakKeyDictionary[Node, AxisRule | NoRule] = WeakKeyDictionary()

    def rule(self, node: Node) -> AxisRule | NoRule:
        """Return the node's axis rule, or why there is none."""
        known = self._rules.get(node)
        if known is None:
            known = self._rules[node] = _rule(node)
        return known

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        """Make the node again for a chunk: on `inputs`, with results of `shapes`."""
        rule = self.rule(node)
        if isinstance(rule, NoRule):
            raise ValueError(f"{node} cannot be made for a chunk: {rule.reason}")
        return resize(node, inputs, shapes, rule.shape_operands)

    def resizable(self, node: Node) -> bool:
        """Return whether `resized` can make the node for other shapes."""
        return isinstance(self.rule(node), AxisRule)

    def scratch(self, node: Node) -> int:
        """Return an upper bound of the bytes that the kernel allocates beside its outputs."""
        memory = _kernel_memory()
        if memory is None:
            return 0
        bytes_ = memory.scratch_bytes(
            node.op, node.inputs, node.outputs, node.attrs, self.threads
        )
        return int(bytes_)

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""
        return node.op in getattr(_kernel_memory(), "ALIASES", ())

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return the inputs whose buffer the first output certainly reuses when they die there."""
        return tuple(getattr(_kernel_memory(), "FORWARDS", {}).get(node.op, ()))

    def flops(self, node: Node) -> int:
        """Return the floating-point operations of the node, roughly."""
        return flops.flops(node)


@cache
def _kernel_memory() -> ModuleType | None:
    """The table of what kernels allocate, where it is there."""
    try:
        return import_module("tf_exla.frontends.tf.kernel_memory")
    except ModuleNotFoundError:
        return None


def _rule(node: Node) -> AxisRule | NoRule:
    found = TABLE.get(node.op)
    if found is None:
        reason = REASONS.get(node.op, "it is not in the table of axis rules")
        return NoRule(f"{node.op} is never split: {reason}")
    try:
        text = found if isinstance(found, str) else found(node)
        return _bind(
            text,
            tuple(tensor.shape for tensor in node.inputs),
            tuple(tensor.shape for tensor in node.outputs),
        )
    except (Unruled, AxisRuleError) as refusal:
        return NoRule(f"{node.op} is not split here: {refusal}")
