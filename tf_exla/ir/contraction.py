"""Contractions: nodes that reduce a long axis, and are split like a matrix product.

sum_d |x[i, d] - y[j, d]| maps [m, d] and [n, d] to [m, n], as a product does, but its graph has an
intermediate tensor [m, n, d]. A "contraction" node holds that graph as a template, and has the axis
rule of the whole: `i D, j D -> i j`. So it is first split along i and j. Only then it becomes a
loop over blocks of the axis d. A block takes a few passes over a tile that stays in cache, or one
pass if XLA compiles it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tf_exla.ir.axis_classes import AxisClasses, Place
from tf_exla.ir.axis_rule import Axis, AxisRule
from tf_exla.ir.graph import Combine, Graph, Node, Shape, SplitAxis, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.resized import resized_graph

OP = "contraction"
BLOCK = 8
"""Indices of a block. If a block has more operands than registers, XLA's code is half as fast."""
MOVED = 16
"""The cost, in operations, of moving an element of an operand to make blocks contiguous."""


@dataclass(frozen=True, eq=False, repr=False)
class Contraction:
    """The computation of a node.

    `template`: the graph for all `extent` indices of the axis. For a block of the indices, it gives
    a partial result; these are combined by `combine`. `slots`: where the inputs carry the axis;
    None: an input is read whole. `carried`: where tensors of the template carry it.
    """

    template: Graph
    extent: int
    slots: tuple[SplitAxis | None, ...]
    combine: Combine
    carried: Mapping[Tensor, SplitAxis]

    @property
    def last(self) -> Node:
        """The node that reduces the axis."""
        (result,) = self.template.outputs
        return next(node for node in self.template.nodes if result in node.outputs)


def contraction_of(node: Node) -> Contraction | None:
    """Return the contraction of a node; None if the node is not a contraction."""
    found = node.attrs.get("contraction") if node.op == OP else None
    return found if isinstance(found, Contraction) else None


def contraction_node(
    one: Contraction, inputs: Sequence[Tensor], output: Tensor, name: str, source: str
) -> Node:
    """Make the node of a contraction."""
    attrs = {"contraction": one}
    return Node(OP, tuple(inputs), (output,), attrs, name=name, source=source)


def axes_of(ops: OpSet, one: Contraction) -> AxisRule:
    """Return the axis rule of a contraction.

    Axes share a label if the rule of a node of the template gives them the same label. The
    contracted axis, and axes that a node before the last one reduces, are needed whole. Other axes
    that the last node reduces may be split, and are combined as the contracted axis is.
    """
    classes, whole = _joined(ops, one)
    whole.update((tensor, slot.axis) for tensor, slot in one.carried.items())
    needed = {classes.root(place) for place in whole}
    names: dict[Place, str] = {}
    sizes: dict[str, int] = {}

    def axis(tensor: Tensor, position: int) -> Axis | None:
        size = tensor.dims[position]
        if size == 1:
            return None
        root = classes.root((tensor, position))
        name = names.setdefault(root, f"{'N' if root in needed else 'n'}{len(names)}")
        sizes[name] = size
        return Axis(name)

    def axes(tensor: Tensor) -> tuple[Axis | None, ...]:
        return tuple(axis(tensor, position) for position in range(len(tensor.dims)))

    operands = tuple(map(axes, one.template.inputs))
    results = tuple(map(axes, one.template.outputs))
    carried = {one.label for one in results[0] if one is not None}
    combine = {name: one.combine for name in sizes if name[0] == "n" and name not in carried}
    text = f"{', '.join(map(_written, operands))} -> {_written(results[0])}"
    return AxisRule(text, operands, results, MappingProxyType(sizes), combine)


def _written(axes: Sequence[Axis | None]) -> str:
    return " ".join("1" if axis is None else axis.label for axis in axes)


def _joined(ops: OpSet, one: Contraction) -> tuple[AxisClasses, set[Place]]:
    """Join the axes of a template; return their classes and the axes that a node needs whole."""
    classes = AxisClasses()
    whole: set[Place] = set()
    for node in one.template.nodes:
        if node.op == "constant":
            continue
        rule = ops.rule(node)
        assert isinstance(rule, AxisRule)  # it was a member of a region
        whole.update(classes.join(node, rule, reduces=node is one.last))
    return classes, whole


def resized(ops: OpSet, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]) -> Node:
    """Rebuild a contraction on parts of its operands."""
    one = contraction_of(node)
    assert one is not None
    classes, _ = _joined(ops, one)
    sizes: dict[Place, int] = {}
    known = [*zip(one.template.inputs, [t.dims for t in inputs], strict=True)]
    known += [*zip(one.template.outputs, shapes, strict=True)]  # type: ignore[list-item]
    for tensor, shape in known:
        for position, size in enumerate(shape):
            if tensor.dims[position] != 1:
                sizes[classes.root((tensor, position))] = size

    def shape_of(tensor: Tensor) -> Shape:
        return tuple(
            sizes.get(classes.root((tensor, position)), size)
            for position, size in enumerate(tensor.dims)
        )

    parts = {
        old: Tensor(new.shape, old.dtype, old.name, new.value, old.held)
        for old, new in zip(one.template.inputs, inputs, strict=True)
    }
    template, mirror = resized_graph(ops, one.template, parts, shape_of)
    carried = {mirror[tensor]: slot for tensor, slot in one.carried.items()}
    again = dataclasses.replace(one, template=template, carried=MappingProxyType(carried))
    output = Tensor(tuple(shapes[0]), node.output.dtype, node.output.name)
    return contraction_node(again, inputs, output, node.name, node.source)


def flops(ops: OpSet, one: Contraction) -> int:
    """Return the flops of a contraction, including the cost of moving its operands."""
    moved = sum(tensor.size for tensor in one.template.inputs)
    return sum(map(ops.flops, one.template.nodes)) + MOVED * moved
