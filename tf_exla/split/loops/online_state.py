"""The nodes of a later loop, rebuilt inside an earlier loop for an online reduction."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Loop, Node, SplitAxis, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import ADDITIVE, LINEAR
from tf_exla.split.loops.factors import (
    Axes,
    Factor,
    Scaled,
    Shift,
    Shifted,
    Value,
    Whole,
    finite,
    follow,
    keeps_precision,
    largest_finite,
    spread,
    wide,
)
from tf_exla.split.loops.rebuild_loop import LoopDraft


@dataclass
class Shared:
    """Tensors in the body of one loop that several merges share.

    `running`: by the position of a result, the running maximum and the shift computed from it.
    `fadings`: by position and dtype, the factor for sums of earlier chunks, exp(m before - m).
    `precise`: replacements in float32 of tensors in bfloat16 or float16.
    """

    running: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    fadings: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    precise: dict[Tensor, Tensor] = field(default_factory=dict)


class OnlineReduction:
    """The later loop's nodes, rebuilt as nodes of the body of `loop`.

    `completed`: tensors that are known only after `loop` or other loops. `draft`: the loop with
    results of both. `draft.folds`: by the position of a result, the body's input for the value
    accumulated so far. `new`: for each result of a node of the later loop, the node that makes it
    in the merged body. `inner.nodes`: further nodes that the rebuilt ones need.
    """

    def __init__(
        self,
        ops: OpSet,
        loop: Loop,
        later: Loop,
        completed: Container[Tensor],
        shared: Shared,
    ) -> None:
        self.ops = ops
        self.loop = loop
        self.later = later
        self.completed = completed
        self.shared = shared
        self.precise: dict[Tensor, Tensor] = {}
        self.inner = Builder(loop, ops)
        self.draft = LoopDraft(loop, later)
        self.new: dict[Tensor, Node] = {}
        self.largest: dict[Tensor, tuple[int, Axes]] = {}
        self.running: dict[int, tuple[Tensor, Tensor]] = {}
        self.fadings: dict[tuple[int, str], Tensor] = {}
        self.values: dict[Tensor, Value] = {}

    def sums(self) -> dict[int, Scaled]:
        """Return the results of the later loop that the earlier loop can compute, by position."""
        if self.later.folds:
            return {}
        self._find_largest()
        pairs = zip(self.later.inputs, self.later.slots, self.later.template.inputs, strict=True)
        for tensor, slot, stand_in in pairs:
            self.values[stand_in] = self._operand(tensor, slot, stand_in)
        if not self._may_stream():
            return {}
        try:
            for node in self.later.template.nodes:
                self.values.update(zip(node.outputs, self._node(node), strict=False))
        except Refusal:  # the op set cannot make a node that this needs
            return {}
        found = {}
        for position, result in enumerate(self.later.results):
            value = self.values.get(self.later.template.outputs[position])
            if result.combine == "add" and isinstance(value, Scaled):
                found[position] = value
        return found

    def _may_stream(self) -> bool:
        """Return whether some sum may stream; a cheap test before any node is rebuilt.

        All operands of such a sum must have a value. If completed tensors are among them, the sum
        must also depend on x - s with a completed s: `_postpone` and `_linear` require it.
        """
        complete = {tensor for tensor, value in self.values.items() if isinstance(value, Scaled)}
        whole = {tensor for tensor, value in self.values.items() if isinstance(value, Whole)}
        shifted: set[Tensor] = set()
        for node in self.later.template.nodes:
            if complete.issuperset(node.inputs):
                complete.update(node.outputs)
            elif not self.largest:
                continue
            elif node.op == "subtract" and node.inputs[0] in complete and node.inputs[1] in whole:
                shifted.add(node.output)
            elif not shifted.isdisjoint(node.inputs) and all(
                one in shifted or one in complete or one in whole for one in node.inputs
            ):
                shifted.update(node.outputs)
        pairs = zip(self.later.template.outputs, self.later.results, strict=True)
        return any(
            result.combine == "add" and (tensor in complete or tensor in shifted)
            for tensor, result in pairs
        )

    # The values of the later loop's nodes.

    def _find_largest(self) -> None:
        """Record the tensors whose maximum the loop completes."""
        outputs = self.loop.template.outputs
        for position, (tensor, result) in enumerate(zip(outputs, self.loop.results, strict=True)):
            node = self.draft.making.get(tensor)
            if result.accumulates_in_body and node is not None and node.op == "maximum":
                node = self.draft.making.get(node.inputs[1])
            if result.combine != "max" or node is None or node.op != "max":
                continue
            if not tensor.is_real:
                continue
            rule = self.ops.rule(node)
            operand = rule.operands[0] if isinstance(rule, AxisRule) else None
            if operand is None or not isinstance(rule, AxisRule):
                continue
            layout: list[int | None] = []
            for axis in operand:
                found = None if axis is None else rule.result_axis(0, axis.label)
                layout.append(None if found is None else found[0])
            self.largest[node.inputs[0]] = (position, tuple(layout))

    def _operand(self, tensor: Tensor, slot: SplitAxis | None, stand_in: Tensor) -> Value:
        if tensor not in self.completed:
            return Scaled(self.draft.operands.setdefault((tensor, slot), stand_in))
        if slot is None:
            return Whole(tensor)
        if tensor in self.loop.outputs:  # a chunk that the loop itself computes
            position = self.loop.outputs.index(tensor)
            if self.loop.results[position].slot == slot:
                return Scaled(self.loop.template.outputs[position])
        return None

    def _node(self, node: Node) -> Iterator[Value]:
        values = [self.values.get(tensor) for tensor in node.inputs]
        if any(value is None for value in values):
            return
        complete = [isinstance(value, Scaled) and not value.factors for value in values]
        if all(complete):
            yield from map(Scaled, self._copy(node, values))
        elif len(node.outputs) == 1:
            yield self._streamed(node, values, complete)

    def _copy(self, node: Node, values: Sequence[Value]) -> tuple[Tensor, ...]:
        """Rebuild a node on streamed values, in their precision; return its results."""
        inputs = [one.value for one in values if isinstance(one, Scaled | Shifted)]
        assert len(inputs) == len(node.inputs)
        outputs, attrs = node.outputs, node.attrs
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            self.new.update(dict.fromkeys(outputs, node))
            return outputs
        if any(new.dtype != old.dtype for new, old in zip(inputs, node.inputs, strict=True)):
            if node.subgraphs:
                raise ValueError(f"{node} cannot be made for wider numbers")
            inputs = [self._widened(tensor) for tensor in inputs]
            attrs = {
                key: wide(value) if isinstance(value, str) else value
                for key, value in attrs.items()
            }
            outputs = tuple(map(self._like, outputs))
        copied = node.replace(inputs=tuple(inputs), outputs=outputs, attrs=attrs)
        self.new.update(dict.fromkeys(outputs, copied))
        return outputs

    def _widened(self, tensor: Tensor) -> Tensor:
        """Return a tensor cast to `wide(dtype)`: sums not divided yet may overflow short floats."""
        dtype = wide(tensor.dtype)
        if tensor.dtype == dtype:
            return tensor
        known = self._known(tensor)
        return known or self._stands_for(tensor, self.inner.op("astype", tensor, dtype=dtype))

    def _like(self, tensor: Tensor) -> Tensor:
        """Return the same tensor, or a wide replacement if it has short floats."""
        dtype = wide(tensor.dtype)
        if tensor.dtype == dtype:
            return tensor
        known = self._known(tensor)
        return known or self._stands_for(tensor, Tensor(tensor.shape, dtype, tensor.name))

    def _known(self, tensor: Tensor) -> Tensor | None:
        return self.precise.get(tensor) or self.shared.precise.get(tensor)

    def _stands_for(self, tensor: Tensor, made: Tensor) -> Tensor:
        self.precise[tensor] = made
        if tensor in self.draft.slots:
            self.draft.slots[made] = self.draft.slots[tensor]
        return made

    def _streamed(self, node: Node, values: Sequence[Value], complete: Sequence[bool]) -> Value:
        first = values[0]
        second = values[1] if len(values) == 2 else None
        if node.op == "subtract" and complete[0] and isinstance(second, Whole):
            assert isinstance(first, Scaled)
            return self._subtract(node, first.value, second.tensor)
        if node.op == "exp" and isinstance(first, Shifted):
            (made,) = self._copy(node, [Scaled(self._widened(first.value))])
            return Scaled(made, ((first.shift, first.axes),))
        if node.op in ("multiply", "divide"):
            if isinstance(first, Scaled) and isinstance(second, Whole):
                return self._postpone(node, first, second.tensor)
            if node.op == "multiply" and isinstance(first, Whole) and isinstance(second, Scaled):
                return self._postpone(node, second, first.tensor)
        return self._linear(node, values, complete)

    def _subtract(self, node: Node, x: Tensor, shift: Tensor) -> Value:
        """Replace x - s by x - m if the loop computes the maximum m: exp(x - m) is at most one."""
        if x not in self.largest or x.shape != node.output.shape:
            return None
        position, layout = self.largest[x]
        m = self.loop.outputs[position]
        sizes = [1 if axis is None else m.dims[axis] for axis in layout]
        shape = np.broadcast_shapes(tuple(sizes), shift.dims)
        axes = tuple(None if size == 1 else axis for axis, size in enumerate(shape))
        replaced = node.replace(inputs=(x, self._running(position, layout)))
        self.new[node.output] = replaced
        return Shifted(node.output, Shift(position, layout, shift), axes)

    def _postpone(self, node: Node, value: Scaled, factor: Tensor) -> Value:
        """Postpone a multiplication or division until after the loop.

        Only exp(x - m), which is at most one, is summed before it is scaled. A sum of other numbers
        may overflow, or round to zero, although the sum of the scaled numbers does not.
        """
        shifted = any(isinstance(factor, Shift) for factor, _ in value.factors)
        if not shifted or value.value.shape != node.output.shape:
            return None
        missing = len(node.output.dims) - len(factor.dims)
        axes: list[int | None] = [None] * missing
        axes += [None if size == 1 else axis for axis, size in enumerate(factor.dims)]
        later = (*value.factors, (Factor(node.op, factor), tuple(axes)))
        return Scaled(self._widened(value.value), later)

    def _linear(self, node: Node, values: Sequence[Value], complete: Sequence[bool]) -> Value:
        rule = self.ops.rule(node)
        # A `where` may select only zeros. If the factor is infinite, the postponed product is NaN.
        if not isinstance(rule, AxisRule) or not keeps_precision(node) or node.op == "where":
            return None
        scaled = [k for k, one in enumerate(values) if isinstance(one, Scaled) and one.factors]
        if len(scaled) + sum(complete) < len(values):
            return None
        if len(scaled) > 1:
            data = [k for k, axes in enumerate(rule.operands) if axes is not None]
            if node.op not in ADDITIVE or scaled != data:
                return None
        elif scaled[0] not in LINEAR.get(node.op, ()):
            return None
        found = set()
        for value, k in ((values[k], k) for k in scaled):
            assert isinstance(value, Scaled)
            moved = tuple((factor, follow(rule, k, axes)) for factor, axes in value.factors)
            if any(axes is None for _, axes in moved):
                return None
            found.add(tuple((factor, axes) for factor, axes in moved if axes is not None))
        if len(found) > 1:
            return None
        first = values[0]
        assert isinstance(first, Scaled)
        if node.op == "astype" and first.value.dtype == wide(node.output.dtype):
            return Scaled(first.value, found.pop())
        (made,) = self._copy(node, values)
        return Scaled(made, found.pop())

    # The running maximum.

    def _running(self, position: int, layout: Axes) -> Tensor:
        """Return the shift inside the loop, along the axes of x: the running maximum of x."""
        if position not in self.running:
            self.running[position] = self.shared.running.get(position) or self._largest(position)
        return spread(self.inner, self.running[position][1], layout)

    def _largest(self, position: int) -> tuple[Tensor, Tensor]:
        part = self.loop.template.outputs[position]
        before = Tensor(part.shape, part.dtype, f"{part.name}/before")
        self.draft.folds[position] = before
        now = self.inner.op("maximum", before, part)
        return now, finite(self.inner, now)

    def fading(self, shift: Shift, axes: Axes, dtype: str) -> Tensor:
        """Return exp(m before - m), for sums of earlier chunks: 0 where m was minus infinity."""
        w, before = self.inner, self.draft.folds[shift.largest]
        key = shift.largest, dtype
        made = self.fadings.get(key) or self.shared.fadings.get(key)
        if made is None:
            _, after = self.running[shift.largest]
            below = w.op("less_equal", before, w.const(largest_finite(before.dtype), before.dtype))
            start = w.op("where", below, before, w.const(0, before.dtype))
            made = w.op("exp", w.op("subtract", w.cast(start, dtype), w.cast(after, dtype)))
        self.fadings[key] = made
        return spread(w, spread(w, made, shift.layout), axes)

    def share(self) -> None:
        """Let later merges reuse the tensors that the body now has."""
        self.shared.running.update(self.running)
        self.shared.fadings.update(self.fadings)
        self.shared.precise.update(self.precise)
