"""Moving: rolled, sliced, padded, repeated or taken tensors are computed in their new order.

A chunk of a shifted tensor needs elements of neighbouring chunks. But `roll(f(x, y)) = f(roll x,
roll y)` if f acts along the axis element by element, and if x and y are small, so are the rolled
ones. So the producers of a large tensor are copied for the elements that are read, in the order in
which they are read; elements that a pad adds are selected afterwards. The same holds for a take:
rows and columns of a large matrix in a random order are computed from those of its small sources.
This is more work, and is tried only if no other form fits the limit.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from itertools import islice

import numpy as np
import numpy.typing as npt

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import Builder
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, with_subgraphs
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.places import Move, moves_of, runs, taken
from tf_exla.split.regions.origins import clash, tests_order

_CONTIGUOUS = frozenset({"random_rows"})
"""Ops whose chunks must be consecutive indices, so their results cannot be moved."""


class _Stays(Exception):
    """A tensor cannot be computed in another order."""


def move(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Replace moves of tensors of more than `least` bytes by copies of their producers.

    Also in sub-graphs. Return the same graph if there are none.
    """
    kept: set[Tensor] = set()
    tested = tests_order(graph)
    while True:
        made = _moved(graph, ops, least, kept)
        met = clash(made, ops) if tested and made is not graph else None
        if met is None:
            return made if made is graph else clean(made, ops)
        if met in kept:
            return graph
        kept.add(met)  # two copies of it would be compared


def _moved(graph: Graph, ops: OpSet, least: int, kept: set[Tensor]) -> Graph:
    made_by = producers(graph)
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, lambda sub: _moved(sub, ops, least, kept))
        moved: list[Node] = [node]
        with suppress(_Stays):
            moved = _Maker(ops, made_by, least, kept).made(node) or moved
        nodes.extend(moved)
        for one in moved:
            made_by.update(dict.fromkeys(one.outputs, one))
    return graph.with_nodes(nodes)


class _Maker:
    """Makes one moved tensor, and collects the nodes for it."""

    def __init__(
        self, ops: OpSet, made_by: dict[Tensor, Node], least: int, kept: set[Tensor]
    ) -> None:
        self.ops, self.least, self.kept = ops, least, kept
        self.made_by = dict(made_by)

    def made(self, node: Node) -> list[Node] | None:
        """Return the nodes that replace `node`; None if it moves nothing large."""
        found, read = moves_of(node), taken(node)
        if found is not None and self._is_large(found.data):
            return self._moved(node, found)
        if read is not None and self._is_large(read[0]):
            return self._taken(node, *read)
        return None

    def _is_large(self, tensor: Tensor) -> bool:
        return tensor.nbytes > self.least and tensor in self.made_by

    def _taken(self, node: Node, x: Tensor, axis: int, indices: Tensor) -> list[Node]:
        w = Builder(node, self.ops)
        numbers = w.op("reshape", indices, w.const([indices.size]))
        return self._in_place(node, w, self._remade(w, x, axis, numbers, {}))

    def _moved(self, node: Node, found: Move) -> list[Node]:
        w = Builder(node, self.ops)
        x = found.data
        chosen: list[tuple[int, Tensor]] = []
        for axis, places in found.places:
            if len(list(islice(runs(places), SETTINGS.runs + 1))) > SETTINGS.runs:
                raise _Stays
            numbers = self._numbers(w, places)
            if places.min(initial=0) < 0:
                chosen.append((axis, numbers))
                numbers = w.op("maximum", numbers, w.const(0))
            x = self._remade(w, x, axis, numbers, {})
            for one in w.nodes:
                self.made_by.update(dict.fromkeys(one.outputs, one))
        for axis, numbers in chosen:
            shape = [size if at == axis else 1 for at, size in enumerate(x.dims)]
            inside = w.op("greater_equal", numbers, w.const(0))
            inside = w.op("reshape", inside, w.const(shape))
            fill = w.zeros(x) if found.fill is None else found.fill
            x = w.op("where", inside, x, fill)
        return self._in_place(node, w, x)

    def _in_place(self, node: Node, w: Builder, x: Tensor) -> list[Node]:
        """Return the nodes of `w`, the last of which makes the result of `node` from `x`."""
        w.op("reshape", x, w.const(list(node.output.dims)))
        return w.ended(node.output)

    def _numbers(self, w: Builder, places: npt.NDArray[np.int64]) -> Tensor:
        """Return the indices `places`, made from ranges: the runtime keeps copies of constants."""
        parts = []
        for first, count, step in runs(places):
            if step == 0:
                parts.append(w.op("full", w.const([count]), w.const(first)))
            else:
                bounds = first, first + count * step, step
                parts.append(w.op("arange", *(w.const(bound) for bound in bounds)))
        return parts[0] if len(parts) == 1 else w.op("concat", *parts, w.const(0))

    def _remade(
        self,
        w: Builder,
        tensor: Tensor,
        axis: int,
        numbers: Tensor,
        known: dict[tuple[Tensor, int], Tensor],
    ) -> Tensor:
        """Return a tensor recomputed for the indices `numbers` along an axis.

        Small tensors and inputs are read by a take. `known`: those recomputed already.
        """
        key = tensor, axis
        if key in known:
            return known[key]
        node = self.made_by.get(tensor)
        if node is None or tensor.nbytes <= self.least or node.op == "constant":
            made = w.op("take", tensor, numbers, w.const(axis))
            known[key] = made
            return made
        rule = self.ops.rule(node)
        if node.stateful or node.subgraphs or node.op in _CONTIGUOUS:
            raise _Stays
        if (tensor.origin or tensor) in self.kept:
            raise _Stays
        if not isinstance(rule, AxisRule):
            raise _Stays
        carried = rule.results[node.outputs.index(tensor)][axis]
        if carried is None or not carried.splittable or carried.block != 1:
            raise _Stays
        label, inputs = carried.label, list(node.inputs)
        shapes = [list(output.dims) for output in node.outputs]
        for position, shape in enumerate(shapes):
            at = rule.result_axis(position, label)
            if at is not None:
                _check_whole(at[1].block)
                shape[at[0]] = numbers.dims[0]
        for position, operand in enumerate(inputs):
            at = None if rule.operands[position] is None else rule.operand_axis(position, label)
            if at is not None:
                _check_whole(at[1].block)
                inputs[position] = self._remade(w, operand, at[0], numbers, known)
        nodes = self.ops.resized(node, inputs, [tuple(shape) for shape in shapes])
        outputs = tuple(
            dataclasses.replace(new, origin=old.origin or old)
            for new, old in zip(nodes[-1].outputs, node.outputs, strict=True)
        )
        w.nodes += [*nodes[:-1], dataclasses.replace(nodes[-1], outputs=outputs)]
        for position, output in enumerate(outputs):
            at = rule.result_axis(position, label)
            if at is not None:
                known[node.outputs[position], at[0]] = output
        return known[key]


def _check_whole(block: int) -> None:
    if block != 1:
        raise _Stays
