"""The op set of the vocabulary: what all front ends share, and safe defaults for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from tf_exla.ir.axis_rule import AxisRule, AxisRuleError, bind
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.lists import ListEffect, is_list
from tf_exla.ir.notes import note, noted
from tf_exla.ir.op_set import Compiles, Work
from tf_exla.ir.rates import CPU, Rates
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.windows import Windows
from tf_exla.vocabulary import trip_counts
from tf_exla.vocabulary.meaning import Meaning
from tf_exla.vocabulary.rebuild import rebuild
from tf_exla.vocabulary.table import UNKNOWN, VOCABULARY, make

_bind = lru_cache(maxsize=16384)(bind)


class VocabularyOps:
    """The ops of the vocabulary, without kernels: only results are allocated.

    A front end derives its `OpSet` from it, with the `meaning` of its own ops and the properties of
    its kernels.
    """

    def meaning(self, op: str) -> Meaning:
        """Return the meaning of an op, by its name in graphs."""
        return VOCABULARY.get(op, UNKNOWN)

    # The meaning of ops.

    def rule(self, node: Node, lists: bool = False) -> AxisRule | Refusal:
        """Return the node's axis rule, or why there is none; `lists`: also for ops on lists."""
        if not lists and node.is_open and any(map(is_list, (*node.inputs, *node.outputs))):
            return Refusal(f"{node.op} is not split here: there are no parts of a list")
        known: AxisRule | Refusal | None = noted(node, "rule", self)
        if known is None:
            note(node, "rule", self, known := self._bound(node))
        return known

    def _bound(self, node: Node) -> AxisRule | Refusal:
        op = self.meaning(node.op)
        if op.rule is None:
            effects = "it has side effects, and stays outside of loops"
            absent = effects if node.stateful else "it is not in the table of axis rules"
            return Refusal(f"{node.op} is never split: {op.reason or absent}")
        try:
            text = op.rule if isinstance(op.rule, str) else op.rule(node)
            return _bind(
                text,
                tuple(tensor.axes for tensor in node.inputs),
                tuple(tensor.axes for tensor in node.outputs),
            )
        except (Refusal, AxisRuleError) as refusal:
            return Refusal(f"{node.op} is not split here: {refusal}")

    def resizable(self, node: Node) -> bool:
        """Return whether `resized` can make the node for other shapes."""
        return isinstance(self.rule(node, lists=True), AxisRule)

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        """Rebuild the node for a chunk: on `inputs`, with results of `shapes`."""
        rule = self.rule(node, lists=True)
        if isinstance(rule, Refusal):
            raise ValueError(f"{node} cannot be made for a chunk: {rule.reason}")
        return rebuild(node, self.meaning(node.op).rebuild, inputs, shapes, rule.shape_operands)

    def flops(self, node: Node) -> int:
        """Return the floating-point operations of the node; complex numbers count fourfold."""
        return _flops(node, self.meaning(node.op).flops)

    def compiled_flops(self, node: Node) -> int:
        """Return the operations that take as long as XLA's code of the node on one core."""
        op = self.meaning(node.op)
        if op.compiled is not None:
            return _flops(node, op.compiled)
        return 2 * _flops(node, op.flops)

    def lookups(self, node: Node) -> int:
        """Return the number of rows that the node finds by their index, as far as it is known."""
        count = self.meaning(node.op).lookups
        if count is None or not all(one.is_static for one in (*node.inputs, *node.outputs)):
            return 0
        return count(node)

    def work(self, node: Node) -> Work:
        """Return the kind of the node's operations, which decides how long they take."""
        return self.meaning(node.op).work

    def chooses(self, node: Node) -> bool:
        """Return whether results are some of an operand's numbers, though without a combiner."""
        return self.meaning(node.op).chooses

    def windows(self, node: Node) -> Windows | None:
        """Return the windows of images that the node reads; None if it reads none, or others."""
        of_op = self.meaning(node.op).windows
        if of_op is None or not all(one.is_static for one in (*node.inputs, *node.outputs)):
            return None
        with suppress(Refusal):
            return of_op(node)
        return None

    def make(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
    ) -> Node | None:
        """Make a node for a rewrite, its result's shape inferred; None if it cannot make `op`."""
        return make(op, inputs, attrs, name)

    def iterations(self, node: Node, bounds: Mapping[Tensor, int]) -> int | None:
        """Return an upper bound of a While's iterations; None if it is not known."""
        return trip_counts.iterations(node, bounds)

    def counted(self, node: Node, times: int) -> Mapping[Tensor, tuple[int, int]]:
        """Return the least and the largest that a While's counters may be in `times` iterations."""
        return trip_counts.counted(node, times)

    # Kernels and devices.

    def rates(self) -> Rates:
        """Return the rates of the device, by which plans are compared."""
        return CPU

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Return an upper bound of the bytes that the kernel allocates besides its outputs."""
        return 0

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""
        return False

    def may_alias(self, node: Node) -> bool:
        """Return whether outputs may share a part of the first input's buffer, or be copies."""
        return False

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return the inputs whose buffer the first output certainly reuses at their last use."""
        return ()

    def stores(self, node: Node) -> int | None:
        """Return the input that a variable or a list keeps after the node; None if none does."""
        return None

    def rounds_factors(self, dtype: str) -> bool:
        """Return whether products round their factors to fewer digits than sums."""
        return False

    def repeats(self, node: Node) -> bool:
        """Return whether the kernel computes the same numbers from the same operands each time."""
        return True

    def runs_again(self) -> bool:
        """Return whether equal nodes run twice, at their places in the plan."""
        return True

    def compiles(self, node: Node) -> Compiles:
        """Return how well XLA compiles the node on this device."""
        return ""

    def picks_rows(self) -> bool:
        """Return whether it is cheap to pick rows whose number is known only at run time."""
        return False

    def fuses_in_place(self) -> bool:
        """Return whether XLA's fused loops overwrite an operand without other readers."""
        return False

    def fused(self, graph: Graph) -> frozenset[Tensor]:
        """Return the results of a graph that have no buffer: their readers compute them."""
        return frozenset()

    def overwrites_variables(self) -> bool:
        """Return whether a While keeps its variables in the buffers of their first values."""
        return False

    # Sizes that are known only at run time, and lists.

    def parts(self, node: Node) -> int:
        return 1

    def writes(self, node: Node) -> bool:
        """Return whether the result is the first operand with the second written into it."""
        return self.meaning(node.op).writes

    def joint(self, node: Node) -> bool:
        """Return whether all results together are at most as large as the first operand."""
        return False

    def bounds(self, node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        """Return upper bounds of the results' sizes and integers, from those of the operands."""
        return [Most() for _ in node.outputs]

    def not_smaller(self, node: Node) -> bool:
        """Return whether no operand has more elements than the result, unless that is empty."""
        return False

    def keeps(self, node: Node) -> ListEffect | None:
        """Return the effect of a node on the list in its result; None if it is not known."""
        return None


def _flops(node: Node, flops: int | Callable[[Node], int]) -> int:
    if flops == 0 or not all(tensor.is_static for tensor in node.outputs):
        return 0
    if callable(flops):
        count = flops(node)
    else:
        count = flops * max((tensor.size for tensor in node.outputs), default=0)
    is_complex = any(tensor.dtype.startswith("complex") for tensor in node.outputs)
    return 4 * count if is_complex else count
