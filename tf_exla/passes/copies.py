"""Comparisons of one copy of some numbers with another copy of them.

The gradient of a maximum looks for the numbers that are equal to it, and the least of the k largest
decides which to keep. Where a pass makes the same numbers in two places, they are cut into other
chunks, and compiled in other ways: their last bits differ, and nothing is found. So a pass that
copies what computes numbers asks here first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tf_exla.axis_rule import AxisRule
from tf_exla.graph import Graph, Node, Tensor, walk
from tf_exla.op_set import OpSet
from tf_exla.passes.splitting.repeating import EQUALITY, EXTREMES, ORDER

_MEANS = frozenset({"EuclideanNorm", "Mean"})
"""Reductions without a combiner: what they make of extremes is none."""

NUMBER, EXTREME = 1, 2


class _From(NamedTuple):
    """How a tensor depends on the copy here and on that there: not, as a number, an extreme."""

    here: int = 0
    there: int = 0

    def joined(self, other: _From) -> _From:
        return _From(max(self.here, other.here), max(self.there, other.there))


_NOT = _From()


def tests_order(graph: Graph) -> bool:
    """Return whether there is a comparison of real numbers anywhere in a program."""
    return any(map(_is_test, walk(graph)))


def compares_inside_and_outside(
    graph: Graph, ops: OpSet, copied: Iterable[Tensor], node: Node, positions: Iterable[int]
) -> bool:
    """Return whether numbers made again in a node's sub-graphs meet those made outside of them.

    `copied`: the numbers, in `graph`. `positions`: operands of `node` that its sub-graphs make.
    """
    tests = _Tests(ops, frozenset(copied), node, frozenset(positions))
    made = tests.follow(graph, {})
    # Who reads the results of a sub-graph, and compares them, is not seen here.
    escaped = [made.get(tensor, _NOT) for tensor in graph.outputs]
    return tests.met or any(_meet(a, b, EXTREME) for a in escaped for b in escaped)


def compares_with_itself(graph: Graph, ops: OpSet, tensor: Tensor) -> bool:
    """Return whether what is made of a tensor is compared with its extreme, or for equality."""
    tests = _Tests(ops, frozenset({tensor}), None, frozenset())
    tests.follow(graph, {})
    return tests.met


class _Tests:
    """A walk over a program that notes whether the copies meet in a comparison."""

    def __init__(
        self, ops: OpSet, copied: frozenset[Tensor], node: Node | None, positions: frozenset[int]
    ) -> None:
        self.ops = ops
        self.copied = copied
        self.node = node
        self.positions = positions
        self.met = False

    def follow(self, graph: Graph, known: Mapping[Tensor, _From]) -> dict[Tensor, _From]:
        """Return how the tensors of a graph depend on the copies."""
        made = dict(known)
        for node in graph.nodes:
            operands = [made.get(tensor, _NOT) for tensor in node.inputs]
            if node.subgraphs:
                found = self._enter(node, operands)
            else:
                self._compare(node, operands)
                found = [self._level(node, operands)] * len(node.outputs)
            for tensor, one in zip(node.outputs, found, strict=True):
                own = _From(there=NUMBER) if tensor in self.copied else _NOT
                if one.joined(own) != _NOT:
                    made[tensor] = one.joined(own)
        return made

    def _level(self, node: Node, operands: list[_From]) -> _From:
        level = _NOT
        for operand in operands:
            level = level.joined(operand)
        if level == _NOT:
            return level
        rule = self.ops.rule(node)
        if not isinstance(rule, AxisRule):
            return _as(level, EXTREME)
        if any(how in EXTREMES for how in rule.combine.values()):
            return _as(level, EXTREME)
        return _as(level, NUMBER) if rule.combine or node.op in _MEANS else level

    def _compare(self, node: Node, operands: list[_From]) -> None:
        if len(operands) != 2 or not _is_test(node):
            return
        least = NUMBER if node.op in EQUALITY else EXTREME
        for a, b in (operands, operands[::-1]):
            if self.node is None:
                self.met |= bool(a.there) and b.there >= least
            else:
                self.met |= _meet(a, b, least)

    def _enter(self, node: Node, operands: list[_From]) -> list[_From]:
        """Follow the sub-graphs of a node; return how its results depend on the copies."""
        own = node is self.node
        entering = [
            _From(here=NUMBER) if own and position in self.positions else operand
            for position, operand in enumerate(operands)
        ]
        while True:
            found = [_NOT] * len(node.outputs)
            for key, graph in node.subgraphs:
                inner = entering[len(node.inputs) - len(graph.inputs) :]
                made = self.follow(graph, dict(zip(graph.inputs, inner, strict=True)))
                if key == "cond":
                    continue
                results = [made.get(tensor, _NOT) for tensor in graph.outputs]
                found = [a.joined(b) for a, b in zip(found, results, strict=True)]
            if "body" not in node.attrs:
                return found
            # The next iteration reads what this one made: for it, that was made elsewhere.
            after = [
                a.joined(_From(there=max(b))) if own else a.joined(b)
                for a, b in zip(entering, found, strict=True)
            ]
            if own:
                after = [entering[k] if k in self.positions else one for k, one in enumerate(after)]
            if after == entering:
                return [a.joined(b) for a, b in zip(operands, found, strict=True)]
            entering = after


def _as(level: _From, most: int) -> _From:
    return _From(*(most if one else 0 for one in level))


def _meet(a: _From, b: _From, least: int) -> bool:
    """Return whether numbers of one copy are compared with what the other copy alone gave."""
    first = bool(a.here) and b.there >= least and not b.here
    return first or (bool(a.there) and not a.here and b.here >= least and not b.there)


def _is_test(node: Node) -> bool:
    """Return whether a node compares real numbers."""
    if node.op not in EQUALITY and node.op not in ORDER:
        return False
    return node.inputs[0].dtype.startswith(("float", "bfloat", "half"))
