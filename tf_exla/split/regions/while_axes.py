"""The axis rule of a While: the axes along which its iterations treat each index separately.

Two axes are one axis if a node of the body, or the step to the next iteration, joins them
(`AxisClasses`). Such an axis may be split if the condition reads nothing that carries it, and each
variable carries it, does not depend on it, or is a sum over it. Such a sum is zero before the first
iteration, and each iteration adds a sum over the axis, as for the gradient of a weight, or writes
one into it. The sums of the chunks are then added, as in any reduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from tf_exla.ir.axis_classes import AxisClasses, Place
from tf_exla.ir.axis_rule import Axis, AxisRule
from tf_exla.ir.control_flow import body_of, cond_of, is_while
from tf_exla.ir.dtypes import repeats_one
from tf_exla.ir.graph import Graph, Loop, Node, Shape, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.resized import resized_graph
from tf_exla.ir.traits import LINEAR
from tf_exla.ir.traverse import producers, reads
from tf_exla.ir.zeros import is_zero

JOINED = frozenset({"add", "add_n", "concat", "stack", "subtract"})
"""Ops whose result is a partial sum if all operands are."""
MOVED: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {**LINEAR, "astype": (), "pad": (0,), "where": (), "strided_slice_grad": (4,)}
)
"""Ops whose result is a partial sum if one of these operands is, and no other operand."""
ADDS = frozenset({"float32", "float64", "complex64", "complex128", "int32", "int64"})
"""Dtypes that may be summed over chunks; shorter floats would be rounded once per chunk."""

State = Literal["split", "partial", "lost"]
"""How a tensor depends on the axis.

It carries the axis, it is a partial sum over it, or it cannot be computed from chunks.
"""


def while_rule(
    ops: OpSet, node: Node, producer: Mapping[Tensor, Node], wanted: Set[Tensor]
) -> AxisRule | Refusal:
    """Return the axis rule of a While; a refusal if its body contains loops over chunks.

    `producer`: the producers of its operands, which tell whether a sum starts from zero. `wanted`:
    its results that are read.
    """
    if any(isinstance(one, Loop) for _, sub in node.subgraphs for one in sub.nodes):
        return Refusal(f"{node.op} is not split: its body is split already")
    one = _joined(ops, node)
    names: dict[Place, str] = {}
    sizes: dict[str, int] = {}
    adding: set[str] = set()

    def label(place: Place, size: int | None) -> Axis:
        root = one.classes.root(place)
        if root not in names:
            known = size is not None and root not in one.whole
            partial = _Walk(ops, one, root).partial() if known else None
            if partial is not None and not _fits(node, one, root, partial, producer, wanted):
                partial = None
            names[root] = f"{'N' if partial is None else 'n'}{len(names)}"
            sizes[names[root]] = size or 0
            if partial:
                adding.add(names[root])
                one.sums[names[root]] = partial
        return Axis(names[root])

    def axes(tensor: Tensor, inner: Tensor) -> tuple[Axis | None, ...]:
        known = enumerate(inner.axes or ())
        if len(tensor.axes or ()) == len(inner.axes or ()):
            return tuple(None if size == 1 else label((inner, axis), size) for axis, size in known)
        # The body does not know the shapes of this list.
        return tuple(label((tensor, axis), None) for axis in range(len(tensor.axes or ())))

    return AxisRule(
        "in its iterations",
        tuple(map(axes, node.inputs, one.body.inputs)),
        tuple(map(axes, node.outputs, one.body.inputs)),
        MappingProxyType(sizes),
        MappingProxyType(dict.fromkeys(adding, "add")),
    )


def _fits(
    node: Node,
    one: _Joined,
    root: Place,
    partial: Set[int],
    producer: Mapping[Tensor, Node],
    wanted: Set[Tensor],
) -> bool:
    """Return whether all sums start from zero, and all other wanted results carry the axis.

    The latter is required only if there are sums (`partial`), which chunks add up.
    """
    for k, (before, after) in enumerate(zip(node.inputs, node.outputs, strict=True)):
        inner = one.body.inputs[k]
        if k in partial:
            if is_list(inner) or inner.dtype not in ADDS or not is_zero(before, producer):
                return False
        elif partial and after in wanted and not one.carries(inner, root):
            return False
    return True


@dataclass(frozen=True)
class _Joined:
    """The axes of a While's body.

    `rules`: the rules of its nodes. `made`: the producers of its tensors. `classes`: which axes of
    its tensors are one axis. `whole`: the classes that cannot be split. `sums`: for each label of
    the While's own rule, the positions of the variables that are sums over that axis.
    """

    body: Graph
    cond: Graph
    rules: Mapping[Node, AxisRule | Refusal]
    made: Mapping[Tensor, Node]
    classes: AxisClasses
    whole: frozenset[Place]
    sums: dict[str, frozenset[int]] = field(default_factory=dict)

    def carries(self, tensor: Tensor, root: Place) -> int:
        """Return how many axes of a tensor belong to the class of `root`."""
        return sum(self.classes.root(place) == root for place in _places(tensor))


_KNOWN: WeakKeyDictionary[Node, _Joined] = WeakKeyDictionary()


def _joined(ops: OpSet, node: Node) -> _Joined:
    known = _KNOWN.get(node)
    if known is None:
        known = _KNOWN[node] = _join(ops, node)
    return known


def _join(ops: OpSet, node: Node) -> _Joined:
    body, cond = body_of(node), cond_of(node)
    classes = AxisClasses()
    whole: set[Place] = set()
    rules: dict[Node, AxisRule | Refusal] = {}
    made = producers(body)
    for one in body.nodes:
        if one.op == "constant":
            value = np.asarray(one.attrs["value"])
            if value.size and not repeats_one(value):
                whole.update(_places(one.output))
            continue
        own = while_rule(ops, one, made, frozenset()) if is_while(one) else None
        rule = rules[one] = own or ops.rule(one, lists=True)
        if isinstance(rule, AxisRule):
            whole |= classes.join(one, rule, reduces=True)
        else:
            tensors = (*one.inputs, *one.outputs)
            whole.update(place for tensor in tensors for place in _places(tensor))
    around = zip(node.inputs, node.outputs, body.inputs, body.outputs, strict=True)
    for outer, result, before, after in around:
        same = outer.axes == result.axes == before.axes == after.axes
        for tensor in (before, after):
            for place in _places(tensor):
                if same:
                    classes.union(place, (before, place[1]))
                else:
                    whole.add(place)
    tested = reads(cond)
    for before, tensor in zip(body.inputs, cond.inputs, strict=True):
        if tensor in tested:
            whole.update(_places(before))
    whole.update(_merged(body, classes))
    return _Joined(body, cond, rules, made, classes, frozenset(map(classes.root, whole)))


def _merged(body: Graph, classes: AxisClasses) -> Iterator[Place]:
    """Yield axes whose class has axes of different sizes.

    They are merged with other axes or divided within the body. Their chunks would differ in size.
    """
    sizes: dict[Place, int | None] = {}
    for tensor in _tensors(body):
        for place in _places(tensor):
            size = (tensor.axes or ())[place[1]]
            if sizes.setdefault(classes.root(place), size) != size:
                yield place


def _tensors(body: Graph) -> Iterator[Tensor]:
    yield from body.inputs
    for node in body.nodes:
        yield from node.outputs


def _places(tensor: Tensor) -> Iterator[Place]:
    for axis, size in enumerate(tensor.axes or ()):
        if size != 1:
            yield tensor, axis


class _Walk:
    """A walk over the body that follows one axis."""

    def __init__(self, ops: OpSet, one: _Joined, root: Place) -> None:
        self.ops = ops
        self.one = one
        self.root = root
        self.variables = frozenset(one.body.inputs)
        self.added_to: set[Tensor] = set()  # variables to which a partial sum is added

    def partial(self) -> frozenset[int] | None:
        """Return positions of the variables that are sums over the axis; None: it is not split."""
        body, cond = self.one.body, self.one.cond
        if any(self.one.carries(tensor, self.root) > 1 for tensor in _tensors(body)):
            return None
        partial: frozenset[int] = frozenset()
        while True:
            states = self._states(partial)
            if states is None:
                return None
            found = {k for k, t in enumerate(body.outputs) if states.get(t) == "partial"}
            added = found | {k for k, t in enumerate(body.inputs) if t in self.added_to}
            if found == added == partial:
                break
            if added <= partial:
                return None
            partial = frozenset(added | partial)
        if any(states.get(tensor) == "lost" for tensor in body.outputs):
            return None
        tested = reads(cond)
        return None if any(cond.inputs[k] in tested for k in partial) else partial

    def _states(self, partial: Set[int]) -> dict[Tensor, State] | None:
        states: dict[Tensor, State] = {}
        for k, tensor in enumerate(self.one.body.inputs):
            if self.one.carries(tensor, self.root):
                states[tensor] = "split"
            elif k in partial:
                states[tensor] = "partial"
        for node in self.one.body.nodes:
            if node.op == "constant":
                if self.one.carries(node.output, self.root):
                    states[node.output] = "split"
                continue
            if not self._follow(node, states):
                return None
        return states

    def _follow(self, node: Node, states: dict[Tensor, State]) -> bool:
        """Set the states of a node's results; return False if the node cannot run on chunks."""
        operands = [states.get(tensor) for tensor in node.inputs]
        if "lost" in operands:
            return False
        rule = self.one.rules[node]
        carried = self._labels(node, rule) if isinstance(rule, AxisRule) else set()
        if not carried:
            if "partial" not in operands:
                return True  # it does not depend on the axis
            if not self._is_linear(node, operands):
                return False
            states.update(dict.fromkeys(node.outputs, "partial"))
            return True
        assert isinstance(rule, AxisRule)
        if len(carried) > 1 or "partial" in operands:
            return False
        (label,) = carried
        inner = _joined(self.ops, node).sums.get(label, ()) if is_while(node) else None
        for position, tensor in enumerate(node.outputs):
            if rule.result_axis(position, label) is not None:
                states[tensor] = "split"
            elif inner is not None and position not in inner:
                continue  # a variable of a While that does not depend on the axis
            elif label not in rule.combine:
                states[tensor] = "lost"
            elif rule.combine[label] == "add" and tensor.dtype in ADDS:
                states[tensor] = "partial"
            else:
                return False
        return True

    def _labels(self, node: Node, rule: AxisRule) -> set[str]:
        """Return the labels of a rule that stand for the axis."""
        found = set()
        for tensors, parts in ((node.inputs, rule.operands), (node.outputs, rule.results)):
            for tensor, axes in zip(tensors, parts, strict=True):
                for position, axis in enumerate(axes or ()):
                    if axis and self.one.classes.root((tensor, position)) == self.root:
                        found.add(axis.label)
        return found

    def _is_linear(self, node: Node, operands: Sequence[State | None]) -> bool:
        """Return whether the sum of a node's results equals its result for summed operands."""
        if any(tensor.dtype not in ADDS for tensor in node.outputs):
            return False
        joined = 2 if self.ops.writes(node) else len(operands) if node.op in JOINED else 0
        if joined:
            rule = self.one.rules[node]
            assert isinstance(rule, AxisRule)
            data = zip(node.inputs[:joined], operands, rule.operands, strict=False)
            whole = [t for t, state, axes in data if state is None and axes is not None]
            self.added_to.update(tensor for tensor in whole if tensor in self.variables)
            added = all(t in self.variables or is_zero(t, self.one.made) for t in whole)
            return added and not any(operands[joined:])  # the place of what is written
        places = [k for k, state in enumerate(operands) if state is not None]
        return len(places) == 1 and places[0] in MOVED.get(node.op, ())


def resized_while(
    ops: OpSet, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape | None]
) -> Node:
    """Return a While rebuilt on parts of its operands.

    `inputs`: the parts. `shapes`: the shapes of its results.
    """
    one = _joined(ops, node)
    sizes: dict[Place, int | None] = {}
    for old, new in zip(one.body.inputs, inputs, strict=True):
        for axis, size in enumerate(new.axes or ()):
            root = one.classes.root((old, axis))
            if (old.axes or ())[axis] != 1 and root not in one.whole:
                known = sizes.setdefault(root, size)
                assert known == size, f"{old} and {new} differ"

    def shape_of(tensor: Tensor) -> Shape | None:
        if tensor.axes is None:  # a list that a list of lists gives
            return None
        axes = enumerate(tensor.axes)
        return tuple(sizes.get(one.classes.root((tensor, axis)), size) for axis, size in axes)

    def again(old: Tensor, shape: Shape | None) -> Tensor:
        same = shape is None or shape == old.axes
        return old.fresh_copy() if same else old.with_axes(shape or (), old.name)

    def part(graph: Graph) -> Graph:
        """Copy the body, or the condition, which works on the same variables."""
        pairs = zip(graph.inputs, inputs, strict=True)
        parts = {old: again(old, new.axes) for old, new in pairs}
        return resized_graph(ops, graph, parts, shape_of)[0]

    outputs = tuple(again(old, shape) for old, shape in zip(node.outputs, shapes, strict=True))
    attrs = {**node.attrs, "body": part(one.body), "cond": part(one.cond)}
    return node.replace(inputs=tuple(inputs), outputs=outputs, attrs=attrs)
