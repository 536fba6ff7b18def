"""The law of comparisons: both operands of a comparison come from the same bits.

The gradient of a maximum searches for the numbers equal to it, and the smallest of the k largest
decides which to keep. A number *chosen* from others, their maximum or their k-th, equals one of
them to the last bit, so the comparison finds it. If a program computes the numbers twice, in chunks
of different sizes or compiled differently, the last bits of the two *instances* differ. Then a
number chosen from one instance is not found in the other. The gradient is then zero, or 0 / 0.

A copy stores the tensor it is a copy of (`Tensor.origin`). `clash` follows the instances of every
origin through a program, and finds a comparison of one instance with a value that comes only from
another. A loop-carried value comes from an instance of the previous iteration. A pass that copies
checks the program that it would make. The stages of a region recompute numbers in loops of their
own, so their completed results are checked in the same way (`split/loops/repeating.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Combine, Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traits import EQUALITY, ORDER
from tf_exla.ir.traverse import walk, walk_node

EXTREMES: frozenset[Combine | None] = frozenset({"argmax", "argmin", "max", "min", "top_k"})

MEANS = frozenset({"mean", "vector_norm"})
"""Reductions without a combiner whose results are not chosen, even if their operands are."""

NUMBER, CHOSEN = 1, 2
"""The levels: a tensor depends on the numbers of an instance, or on numbers chosen from them."""

Instance = tuple[Tensor, bool]
"""A tensor, and whether a previous iteration computed it."""
Levels = Mapping[Instance, int]
_NONE: Levels = {}


def tests_order(graph: Graph) -> bool:
    """Return whether a program compares real numbers anywhere."""
    return any(map(is_test, graph.nodes))


def is_test(node: Node) -> bool:
    """Return whether a node compares real numbers, itself or in its sub-graphs."""
    if node.subgraphs:
        return any(is_test(one) for _, sub in node.subgraphs for one in sub.nodes)
    if node.op not in EQUALITY and node.op not in ORDER:
        return False
    return node.inputs[0].is_real


def least_level(test: Node) -> int:
    """Return the lowest level of an operand of another instance at which a comparison is wrong.

    Equality is wrong for any number that should equal itself. Order is wrong only for a chosen
    number, which ties with the number that it was chosen from.
    """
    return NUMBER if any(one.op in EQUALITY for one in walk_node(test)) else CHOSEN


def level_after(ops: OpSet, node: Node, level: int) -> int:
    """Return the level of a node's results, given the `level` of an operand."""
    if not level:
        return level
    rule = ops.rule(node)
    if not isinstance(rule, AxisRule) or ops.chooses(node):
        return CHOSEN
    if any(how in EXTREMES for how in rule.combine.values()):
        return CHOSEN
    return NUMBER if rule.combine or node.op in MEANS else level


def clash(graph: Graph, ops: OpSet, starts: Collection[Tensor] = ()) -> Tensor | None:
    """Return a tensor of which a comparison has two instances as operands; None if none does.

    `starts`: what iterations start from that are computed again, if only these iterations compare
    numbers. They compare with what they start from as they did before.
    """
    made = [t for node in walk(graph) for t in node.outputs]
    origins = {tensor.origin for tensor in made if tensor.origin is not None}
    if not origins:
        return None
    walked = _Instances(ops, origins, starts)
    walked.follow(graph, {})
    return walked.met


class _Instances:
    """A walk over a program that records where two instances meet."""

    def __init__(self, ops: OpSet, origins: set[Tensor], starts: Collection[Tensor]) -> None:
        self.ops = ops
        self.origins = origins
        self.starts = starts
        self.met: Tensor | None = None

    def follow(self, graph: Graph, known: Mapping[Tensor, Levels]) -> dict[Tensor, Levels]:
        """Return the levels of each tensor of a graph, given those of its inputs (`known`)."""
        made = dict(known)
        for node in graph.nodes:
            operands = [made.get(tensor, _NONE) for tensor in node.inputs]
            if node.subgraphs:
                found = self._enter(node, operands)
            else:
                if len(operands) == 2 and is_test(node):
                    self._compare(node, *operands)
                found = [self._level(node, operands)] * len(node.outputs)
            for tensor, one in zip(node.outputs, found, strict=True):
                if tensor.origin is not None or tensor in self.origins:
                    one = _joined(one, {(tensor, False): NUMBER})
                if one and tensor not in self.starts:
                    made[tensor] = one
        return made

    def _level(self, node: Node, operands: Sequence[Levels]) -> Levels:
        joined = _NONE
        for operand in operands:
            joined = _joined(joined, operand)
        if not joined:
            return joined
        after = {level: level_after(self.ops, node, level) for level in {*joined.values()}}
        if all(level == changed for level, changed in after.items()):
            return joined
        return {one: after[level] for one, level in joined.items()}

    def _compare(self, node: Node, left: Levels, right: Levels) -> None:
        least = least_level(node)
        for a, b in ((left, right), (right, left)):
            for own in a:
                if own in b:  # a number chosen from a sum of both occurs in that sum
                    continue
                for other, level in b.items():
                    again = self.starts and own[0] is other[0]
                    if level >= least and _origin(own) is _origin(other) and not again:
                        self.met = _origin(own)

    def _enter(self, node: Node, operands: list[Levels]) -> list[Levels]:
        """Follow the sub-graphs of a node; return the levels of its results.

        The body of a loop is followed until the levels of what it carries no longer change.
        """
        entering = operands
        while True:
            found = [_NONE] * len(node.outputs)
            own: set[Tensor] = set()
            for key, graph in node.subgraphs:
                skipped = 0 if isinstance(node, Loop) else len(entering) - len(graph.inputs)
                inner = dict(zip(graph.inputs, entering[skipped:], strict=False))
                made = self.follow(graph, inner)
                own.update(tensor for one in walk(graph) for tensor in one.outputs)
                if key != "cond":
                    results = [made.get(tensor, _NONE) for tensor in graph.outputs]
                    found = [_joined(a, b) for a, b in zip(found, results, strict=True)]
            if "body" not in node.attrs:
                return found
            # For the next iteration, the results of this iteration are of a previous instance.
            after = [_joined(a, _aged(b, own)) for a, b in zip(entering, found, strict=True)]
            if after == entering:
                return [_joined(a, b) for a, b in zip(operands, found, strict=True)]
            entering = after


def _joined(a: Levels, b: Levels) -> Levels:
    """Return the higher level of each instance; one of the two itself if it has all of them."""
    if a is b or not a or not b:
        return a or b
    small, large = (a, b) if len(a) < len(b) else (b, a)
    if all(large.get(one, 0) >= level for one, level in small.items()):
        return large
    return {one: max(a.get(one, 0), b.get(one, 0)) for one in {**a, **b}}


def _aged(levels: Levels, own: set[Tensor]) -> Levels:
    """Return the levels as the next iteration sees them.

    The next iteration computes other instances of the tensors `own` of the body. If a value then
    depends on one instance at two levels, the higher level counts.
    """
    aged: dict[Instance, int] = {}
    for (tensor, before), level in levels.items():
        key = tensor, before or tensor in own
        aged[key] = max(aged.get(key, 0), level)
    return aged


def _origin(instance: Instance) -> Tensor:
    tensor, _ = instance
    return tensor.origin or tensor
